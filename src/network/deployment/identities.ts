import { createHash } from 'node:crypto'
import type { Author } from '../../base/author.ts'
import { parseTarget } from '../model/model.ts'
import { systemType } from '../model/system.ts'
import { type Caller, identityUnknown } from '../resources/transaction.ts'
import { accountId, formatAccount } from '../transactions/account.ts'
import type { IdentityRequest } from '../transactions/messages.ts'
import type { BusinessNetwork } from './business-network.ts'

// An identity is a resource whose id is the SHA-256 of its secret. The ledger never contains the secret, but anyone
// who can read the ledger can check whether a given secret belongs to an identity.

const IDENTITY = systemType('Identity')
const SECRET_LENGTH_MAX = 256

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
  if (secret.length > SECRET_LENGTH_MAX) throw identityUnknown()
  return requireIdentity(network, identityId(secret), null)
}

/**
 * Returns the caller with this account of an OpenID Connect issuer. Errors: IDENTITY_UNKNOWN, for revoked and for
 * unknown identities alike.
 */
export async function authenticateAccount(
  network: BusinessNetwork,
  account: Author,
): Promise<Caller> {
  const certificate = formatAccount(account)
  return requireIdentity(network, accountId(certificate), certificate)
}

/** `account` is the certificate of an account, or null for a secret. */
async function requireIdentity(
  network: BusinessNetwork,
  id: string,
  account: string | null,
): Promise<Caller> {
  const unknown = identityUnknown(account === null ? 'secret' : 'account')
  const identity = await network.readUnchecked({ type: IDENTITY, id })
  const participant = parseTarget(String(identity?.participant))
  if (participant === null) throw unknown
  // An identity with the id of an account could otherwise be bound as the hash of a secret.
  if (account !== null && identity?.certificate !== account) throw unknown
  const caller = { participant, identity: id }
  if (await network.isRevoked(caller)) throw unknown
  return caller
}
