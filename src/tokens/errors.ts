import { CodedError } from '../base/coded-error.ts'

export type TokenErrorCode =
  | 'TOKEN_INVALID' // not ours, altered, expired, revoked, or meant for another audience
  | 'TOKEN_ID_MALFORMED' // not the `jti` of a token
  | 'SECRET_TOO_SHORT' // an operator's secret of less than 32 bytes can be guessed
  | 'SCOPE_UNKNOWN'
  | 'SCOPES_TOO_LONG' // more than a token can carry
  | 'KEYS_FIXED' // the key is the operator's own secret, which daicho cannot replace
  | 'KEY_RING_FULL' // too many old keys are still needed
  | 'REVOCATIONS_FULL'
  | 'PASSWORD_UNUSABLE' // empty, too long, or with control characters
  | 'PASSWORD_HASH_UNUSABLE' // not an argon2id text within our bounds
  | 'HASHING_BUSY' // too many passwords are waiting to be checked

/** Messages never hold a token, a key, a password or a hash. */
export class TokenError extends CodedError<TokenErrorCode> {
  override readonly name = 'TokenError'
}
