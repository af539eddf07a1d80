import { createHash } from 'node:crypto'
import { NetworkError } from '../errors.ts'
import { targetOfCanonical } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import type { Caller } from '../resources/transaction.ts'
import type { IdentityRequest } from '../transactions/messages.ts'
import type { BusinessNetwork } from './business-network.ts'

// An identity is a resource whose id is the SHA-256 of its secret. The ledger never contains the secret, but anyone
// who can read the ledger can check whether a given secret belongs to an identity.

const IDENTITY = systemType('Identity')
const SECRET_LENGTH_MAX = 256

/** Returns the id of the identity with this secret. */
function identityId(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

/**
 * Records a new identity of a participant, with the given secret.
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

/** Returns the caller with this secret. Errors: IDENTITY_UNKNOWN, for revoked and for unknown identities alike. */
export async function callerWith(network: BusinessNetwork, secret: string): Promise<Caller> {
  const unknown = new NetworkError(
    'IDENTITY_UNKNOWN',
    'no identity of this network has this secret',
  )
  if (secret.length > SECRET_LENGTH_MAX) throw unknown
  const id = identityId(secret)
  const identity = await network.lookUp({ type: IDENTITY, id })
  if (identity === null || identity.state === 'REVOKED') throw unknown
  const participant = targetOfCanonical(String(identity.participant))
  if (participant === null || (await network.lookUp(participant)) === null) throw unknown
  return { participant, identity: id }
}

/** Whether the identity of a formerly valid caller has been revoked, or its participant deleted. */
export async function isRevoked(
  network: BusinessNetwork,
  { identity, participant }: Caller,
): Promise<boolean> {
  if (identity === null) return false
  const stored = await network.lookUp({ type: IDENTITY, id: identity })
  if (stored === null || stored.state === 'REVOKED') return true
  return (await network.lookUp(participant)) === null
}
