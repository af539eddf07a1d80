import type { Author } from '../../base/author.ts'
import type { JsonObject } from '../../base/json.ts'
import { NetworkError } from '../errors.ts'
import { formatRelationship, type Target } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import {
  formatItemId,
  parseStored,
  type ResourceChange,
  type ResourceReader,
  toWrite,
} from './database.ts'
import type { Resource } from './instances.ts'

/** The participant and the identity of a request. */
export interface Caller {
  readonly participant: Target
  /** The id of the identity; null for the gateway's administrator. */
  readonly identity: string | null
  /** The author of the changes if a command makes them. The author of other changes is the participant. */
  readonly by?: Author
}

/** Returns the author of the changes that `caller` makes in the network `name`. */
export function callerAuthor({ participant, by }: Caller, name: string): Author {
  return by ?? { iss: name, sub: formatItemId(participant) }
}

/** Whether the identity of `caller` was revoked, or its participant deleted. */
export async function isRevoked(
  { participant, identity }: Caller,
  state: Pick<ResourceReader, 'read' | 'exists'>,
): Promise<boolean> {
  if (identity === null) return false
  const [stored, hasOwner] = await Promise.all([
    state.read({ type: systemType('Identity'), id: identity }),
    state.exists(participant),
  ])
  return stored === null || !hasOwner || parseStored(stored.text).state === 'REVOKED'
}

/** Returns the error for revoked and for unknown identities alike. */
export function identityUnknown(proof: 'secret' | 'account' = 'secret'): NetworkError {
  return new NetworkError('IDENTITY_UNKNOWN', `no identity of this network has this ${proof}`)
}

/** The caller of requests that need no identity, and of requests with the gateway's API key. */
export const ADMIN: Caller = {
  participant: { type: systemType('NetworkAdmin'), id: 'admin' },
  identity: null,
}

/** The id and the time of a new transaction. */
export interface Stamp {
  readonly transactionId: string
  readonly nowMs: number
}

/** Returns a transaction of `type`, a qualified name, with the fields that all transactions have. */
export function createTransaction(
  type: string,
  { transactionId, nowMs }: Stamp,
  fields: JsonObject,
): Resource {
  const timestamp = new Date(nowMs).toISOString()
  const value = { $class: type, ...fields, transactionId, timestamp }
  return { target: { type, id: transactionId }, value }
}

/** Returns the target of a transaction's historian record. */
export function historianTarget({ id }: Target): Target {
  return { type: systemType('HistorianRecord'), id }
}

/** Returns the first two changes of a transaction: the transaction itself and its historian record. */
export function transactionRecords(
  { target, value }: Resource,
  { participant, identity }: Caller,
  events: readonly JsonObject[],
): ResourceChange[] {
  const identityUsed = formatRelationship({ type: systemType('Identity'), id: identity ?? '' })
  // In the order of canonical JSON, so that it is printed without sorting.
  const record = {
    $class: systemType('HistorianRecord'),
    eventsEmitted: [...events],
    ...(identity === null ? {} : { identityUsed }),
    participantInvoking: formatRelationship(participant),
    transactionId: target.id,
    transactionInvoked: formatRelationship(target),
    transactionTimestamp: value.timestamp ?? null,
    transactionType: target.type,
  }
  return [
    toWrite('create', target, value, true),
    toWrite('create', historianTarget(target), record, true),
  ]
}
