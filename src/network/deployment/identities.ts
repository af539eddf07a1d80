import { createHash } from 'node:crypto'
import { parseTarget } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import { type Caller, identityUnknown } from '../resources/transaction.ts'
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
export async function authenticate(network: BusinessNetwork, secret: string): Promise<Caller> {
  const unknown = identityUnknown()
  if (secret.length > SECRET_LENGTH_MAX) throw unknown
  const id = identityId(secret)
  const identity = await network.readUnchecked({ type: IDENTITY, id })
  const participant = parseTarget(String(identity?.participant))
  if (participant === null) throw unknown
  const caller = { participant, identity: id }
  if (await network.isRevoked(caller)) throw unknown
  return caller
}
