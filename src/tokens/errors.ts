import { CodedError } from '../base/coded-error.ts'

export type TokenErrorCode =
  | 'TOKEN_INVALID' // not issued by this node, altered, expired, revoked, or for another audience
  | 'ISSUER_UNAVAILABLE' // the keys of the token's issuer could not be fetched lately
  | 'TOKEN_ID_MALFORMED' // the `jti` is not a UUID
  | 'SECRET_TOO_SHORT' // the operator's secret has less than 32 bytes
  | 'SCOPE_UNKNOWN'
  | 'SCOPE_RULES_INVALID' // malformed file that maps claims to scopes
  | 'SCOPES_TOO_LONG' // the scopes do not fit into a token
  | 'TOKEN_GRANT_INVALID' // the subject or the lifetime
  | 'TOKEN_GRANT_EXCEEDS' // more than the token of the creator allows
  | 'KEYS_FIXED' // the operator configured the key, so daicho cannot replace it
  | 'KEY_RING_FULL' // too many old keys may still have valid tokens
  | 'REVOCATIONS_FULL'
  | 'PASSWORD_UNUSABLE' // empty, too long, or with control characters
  | 'PASSWORD_HASH_UNUSABLE' // not an argon2id string, or too expensive to check
  | 'HASHING_BUSY' // too many pending password checks

/** Messages never contain a token, a key, a password or a hash. */
export class TokenError extends CodedError<TokenErrorCode> {
  override readonly name = 'TokenError'
  /** The subject of a token with a valid signature, for the log. */
  readonly subject: string | undefined

  constructor(
    code: TokenErrorCode,
    message: string,
    { subject, ...options }: ErrorOptions & { readonly subject?: string } = {},
  ) {
    super(code, message, options)
    this.subject = subject
  }
}
