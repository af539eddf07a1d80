import { createHash } from 'node:crypto'
import { NetworkError } from '../errors.ts'
import { targetOfCanonical } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import type { Caller } from '../resources/transaction.ts'
import type { IdentityRequest } from '../transactions/messages.ts'
import type { BusinessNetwork } from './business-network.ts'

// An identity is a resource like any other, named by the SHA-256 of its secret. The ledger never sees
// the secret, and everyone who has the ledger can tell who holds one.

const IDENTITY = systemType('Identity')
const SECRET_LENGTH_MAX = 256

/** The id of the identity whose secret is `secret`. */
function identityId(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

/**
 * Records a new identity of a participant, whose secret is `secret`.
 * Errors: RESOURCE_INVALID, RESOURCE_NOT_FOUND, RESOURCE_EXISTS, ACCESS_DENIED.
 */
export async function issueIdentity(
  network: BusinessNetwork,
  identity: IdentityRequest,
  secret: string,
  caller: Caller,
): Promise<void> {
  await network.change({ kind: 'issueIdentity', identity, id: identityId(secret) }, caller)
}

/**
 * The caller that the bearer of `secret` is.
 * Errors: IDENTITY_UNKNOWN, which does not tell a revoked identity from one that never was.
 */
export async function callerWith(network: BusinessNetwork, secret: string): Promise<Caller> {
  const unknown = new NetworkError('IDENTITY_UNKNOWN', 'this is no identity of the network')
  if (secret.length > SECRET_LENGTH_MAX) throw unknown
  const id = identityId(secret)
  const identity = await network.lookUp({ type: IDENTITY, id })
  if (identity === null || identity.state === 'REVOKED') throw unknown
  const participant = targetOfCanonical(String(identity.participant))
  if (participant === null || (await network.lookUp(participant)) === null) throw unknown
  return { participant, identity: id }
}

/** Whether the identity of `caller`, who was known once, has been revoked since. */
export async function isRevoked(network: BusinessNetwork, { identity }: Caller): Promise<boolean> {
  if (identity === null) return false
  const stored = await network.lookUp({ type: IDENTITY, id: identity })
  return stored === null || stored.state === 'REVOKED'
}
