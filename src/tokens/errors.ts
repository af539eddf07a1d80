import { CodedError } from '../base/coded-error.ts'

export type TokenErrorCode =
  | 'TOKEN_INVALID' // not issued by this node, altered, expired, revoked, or for another audience
  | 'TOKEN_ID_MALFORMED' // not the `jti` of a token
  | 'SECRET_TOO_SHORT' // an operator's secret of less than 32 bytes could be guessed
  | 'SCOPE_UNKNOWN'
  | 'SCOPES_TOO_LONG' // more than a token can carry
  | 'KEYS_FIXED' // the key is the operator's own secret, which daicho cannot replace
  | 'KEY_RING_FULL' // too many old keys are still needed
  | 'REVOCATIONS_FULL'
  | 'PASSWORD_UNUSABLE' // empty, too long, or with control characters
  | 'PASSWORD_HASH_UNUSABLE' // not an argon2id string within the bounds of this module
  | 'HASHING_BUSY' // too many pending password checks

/** Messages never contain a token, a key, a password or a hash. */
export class TokenError extends CodedError<TokenErrorCode> {
  override readonly name = 'TokenError'
}
