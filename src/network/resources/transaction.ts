import type { JsonObject } from '../../base/json.ts'
import { relationshipText, type Target } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import type { ResourceChange } from './database.ts'
import type { Resource } from './instances.ts'

/** The participant and the identity that a request acts as. */
export interface Caller {
  readonly participant: Target
  /** The id of the identity that was shown; null where the gateway itself vouches. */
  readonly identity: string | null
}

/** The caller of requests that need no identity, and of those with the key of the gateway. */
export const ADMIN: Caller = {
  participant: { type: systemType('NetworkAdmin'), id: 'admin' },
  identity: null,
}

/** The id and the time of a new transaction. */
export interface Stamp {
  readonly transactionId: string
  readonly nowMs: number
}

/** The transaction of `type`, a qualified name, with the fields that every one has. */
export function transactionOf(
  type: string,
  { transactionId, nowMs }: Stamp,
  fields: JsonObject,
): Resource {
  const timestamp = new Date(nowMs).toISOString()
  const value = { $class: type, ...fields, transactionId, timestamp }
  return { target: { type, id: transactionId }, value }
}

/** The historian's record of a transaction. */
export function historianTarget({ id }: Target): Target {
  return { type: systemType('HistorianRecord'), id }
}

/** The first two entries of every transaction: itself, and the historian's record of it. */
export function recordsOf(
  { target, value }: Resource,
  { participant, identity }: Caller,
  events: readonly JsonObject[],
): ResourceChange[] {
  const identityUsed = relationshipText({ type: systemType('Identity'), id: identity ?? '' })
  const record = {
    $class: systemType('HistorianRecord'),
    transactionId: target.id,
    transactionType: target.type,
    transactionInvoked: relationshipText(target),
    participantInvoking: relationshipText(participant),
    ...(identity === null ? {} : { identityUsed }),
    eventsEmitted: [...events],
    transactionTimestamp: value.timestamp ?? null,
  }
  return [
    { kind: 'create', target, resource: value, assigned: true },
    { kind: 'create', target: historianTarget(target), resource: record, assigned: true },
  ]
}
