import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { NetworkError } from '../errors.ts'
import { checkInstance } from '../model/validation.ts'
import { type InstanceRules, invalid } from '../resources/instances.ts'
import type { TransactionRecord } from '../resources/transaction.ts'
import { requireString } from './guest-message.ts'

/** Events that one transaction may emit. */
const EVENTS_MAX = 1_000

/**
 * The events that the processors of `transaction` emitted, as they are kept and sent; their ids,
 * `<transaction id>#<n>`, and their time are given here.
 * Errors: RESOURCE_INVALID, TRANSACTION_FAILED.
 */
export function checkedEvents(
  emitted: Json,
  transaction: TransactionRecord,
  rules: InstanceRules,
): JsonObject[] {
  const events = Array.isArray(emitted) ? emitted : []
  if (events.length > EVENTS_MAX) {
    const message = `a transaction emits ${EVENTS_MAX} events at most`
    throw new NetworkError('TRANSACTION_FAILED', message)
  }
  return events.map((event, at) => checkedEvent(event, at, transaction, rules))
}

function checkedEvent(
  event: Json,
  at: number,
  { target, timestamp }: TransactionRecord,
  { model, strictness }: InstanceRules,
): JsonObject {
  const name = isJsonObject(event) ? requireString(event.$class) : ''
  const type = model.type(name)
  if (!isJsonObject(event) || type?.kind !== 'event') {
    throw new NetworkError('TRANSACTION_FAILED', `there is no event ${name.slice(0, 100)}`)
  }
  const whole = { ...event, eventId: `${target.id}#${at}`, timestamp }
  const { resource, problems } = checkInstance(model, type, whole, strictness)
  if (problems === null) return resource
  throw new NetworkError('TRANSACTION_FAILED', invalid(problems).message, { problems })
}
