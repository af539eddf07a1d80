import type { JsonObject } from '../../base/json.ts'
import { relationshipText, type Target } from '../model/relationship.ts'
import { systemType } from '../model/system.ts'
import { actorOf, type Caller } from './caller.ts'
import type { ResourceChange } from './database.ts'

/** A transaction that is about to be recorded. */
export interface TransactionRecord {
  readonly target: Target
  readonly resource: JsonObject
  /** ISO 8601. */
  readonly timestamp: string
}

/** The transaction of `type`, a qualified name, with the fields that every one has. */
export function transactionOf(
  type: string,
  transactionId: string,
  nowMs: number,
  fields: JsonObject,
): TransactionRecord {
  const timestamp = new Date(nowMs).toISOString()
  const resource = { $class: type, ...fields, transactionId, timestamp }
  return { target: { type, id: transactionId }, resource, timestamp }
}

/** The historian's record of a transaction. */
export function historianTarget({ target }: TransactionRecord): Target {
  return { type: systemType('HistorianRecord'), id: target.id }
}

/** What every transaction leaves before its own writes: itself, and the historian's record of it. */
export function recordsOf(
  transaction: TransactionRecord,
  caller: Caller,
  events: readonly JsonObject[],
): ResourceChange[] {
  const { target, resource, timestamp } = transaction
  const record = {
    $class: systemType('HistorianRecord'),
    transactionId: target.id,
    transactionType: target.type,
    transactionInvoked: relationshipText(target),
    ...actorOf(caller),
    eventsEmitted: [...events],
    transactionTimestamp: timestamp,
  }
  return [
    { kind: 'create', target, resource, assigned: true },
    { kind: 'create', target: historianTarget(transaction), resource: record, assigned: true },
  ]
}
