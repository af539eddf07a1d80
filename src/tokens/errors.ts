import { CodedError } from '../base/coded-error.ts'

/** Every way the token service and the password hashes refuse. */
export type TokenErrorCode =
  | 'TOKEN_INVALID' // not ours, altered, expired, revoked, or meant for somebody else
  | 'TOKEN_ID_MALFORMED' // what should be revoked is not the `jti` of a token
  | 'SECRET_TOO_SHORT' // an operator's secret of less than 32 bytes can be guessed
  | 'SCOPE_UNKNOWN' // no scope is written like that
  | 'SCOPES_TOO_LONG' // more than a token can carry
  | 'KEYS_FIXED' // the key is the operator's own secret: they replace it, not we
  | 'KEY_RING_FULL' // too many old keys are still needed
  | 'REVOCATIONS_FULL' // too many tokens are revoked one by one
  | 'PASSWORD_UNUSABLE' // empty, too long, or with control characters
  | 'PASSWORD_HASH_UNUSABLE' // not an argon2id text within our bounds
  | 'HASHING_BUSY' // too many passwords wait to be looked at

/** Thrown by everything in this wing; messages never hold a token, a key, a password or a hash. */
export class TokenError extends CodedError<TokenErrorCode> {
  override readonly name = 'TokenError'
}
