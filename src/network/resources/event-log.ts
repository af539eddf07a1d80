import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { NetworkError } from '../errors.ts'
import { checkInstance } from '../model/validation.ts'
import { invalid, type Judge } from './instances.ts'
import type { TransactionRecord } from './transaction-record.ts'

/** Events that one transaction may emit. */
const EVENTS_MAX = 1_000

/** The events of one transaction, numbered as they come. */
export class EventLog {
  readonly list: JsonObject[] = []
  readonly #transaction: TransactionRecord
  readonly #judge: Judge

  constructor(transaction: TransactionRecord, judge: Judge) {
    this.#transaction = transaction
    this.#judge = judge
  }

  /** Takes an event; its id and time are ours to tell. Errors: RESOURCE_INVALID. */
  emit(event: Json): void {
    const { model, strictness } = this.#judge
    const name = isJsonObject(event) ? String(event.$class) : ''
    const type = model.type(name)
    if (!isJsonObject(event) || type?.kind !== 'event') {
      throw new NetworkError('TYPE_NOT_FOUND', `there is no event ${name.slice(0, 100)}`)
    }
    if (this.list.length >= EVENTS_MAX) {
      const message = `a transaction emits ${EVENTS_MAX} events at most`
      throw new NetworkError('TRANSACTION_FAILED', message)
    }
    const { target, timestamp } = this.#transaction
    const whole = { ...event, eventId: `${target.id}#${this.list.length}`, timestamp }
    const { resource, problems } = checkInstance(model, type, whole, strictness)
    if (problems !== null) throw invalid(problems)
    this.list.push(resource)
  }
}
