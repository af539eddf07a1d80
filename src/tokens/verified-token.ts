import { createHash } from 'node:crypto'
import { TokenError } from './errors.ts'

export interface VerifiedToken {
  /** Id of the token, for revoking it. The id of an issuer's token is derived, so that no two issuers share one. */
  readonly jti: string
  readonly subject: string
  /** The key under which the tokens of the subject are revoked (`toSubjectId`). */
  readonly subjectId: string
  /** The issuer; absent for a token of this node. */
  readonly issuer?: string
  /** Seconds since the Unix epoch. */
  readonly issuedAt: number
  /** Seconds since the Unix epoch. */
  readonly expiresAt: number
  /** Tolerated difference between the clocks of the issuer and of this node, seconds. */
  readonly skewSeconds: number
  /** All claims, as granted. `scope` contains the scopes of this node. */
  readonly claims: Readonly<Record<string, unknown>>
  /** Whether the token was issued with `boundTo` equal to `text`. */
  isBoundTo(text: string): boolean
}

/**
 * Creates a TOKEN_INVALID error. Its cause contains only `reason`, because jose's own error would contain the claims.
 */
export function invalidToken(reason: string, subject?: string): TokenError {
  const known = subject === undefined ? {} : { subject }
  const cause = new Error(reason)
  return new TokenError('TOKEN_INVALID', 'the token is not valid here', { cause, ...known })
}

/** Returns an id in the form of a UUID that is the same for equal `parts` only. */
export function deriveId(...parts: readonly string[]): string {
  const hash = createHash('sha256').update(JSON.stringify(parts)).digest('hex')
  return hash.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5')
}

/** Returns the key under which the tokens of a subject are revoked. `issuer` is absent for tokens of this node. */
export function toSubjectId(subject: string, issuer = ''): string {
  return deriveId('subject', issuer, subject)
}
