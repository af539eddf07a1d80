import { allows, type Grant, grantOf, type Need, NO_GRANT, scopeClaim } from './scope.ts'
import type { IssuedToken, TokenService, VerifiedToken } from './service.ts'

/** The `aud` of api tokens. */
const API_AUDIENCE = 'daicho:api'
/** Longest subject, UTF-16 units. */
const SUBJECT_LENGTH_MAX = 128

/** Whoever makes a request, as their api token says. */
export interface Caller {
  /** On whose behalf; several tokens may have the same. */
  readonly subject: string
  /** Seconds since the Unix epoch. */
  readonly expiresAt: number
  readonly grant: Grant
}

/** Somebody without a token. */
export const NOBODY: Caller = { subject: '', expiresAt: 0, grant: NO_GRANT }

/** What an api token is to say. */
export interface ApiTokenGrant {
  /** A name for whoever will use it: see `subjectOf`. */
  readonly subject: string
  readonly scopes: readonly string[]
  /** Whole seconds until it expires, 1 to 366 days. */
  readonly lifeSeconds: number
}

/** Whether `text` can be a subject: 1..128 UTF-16 units without control characters. */
export function isSubject(text: string): boolean {
  return (
    text.length >= 1 && text.length <= SUBJECT_LENGTH_MAX && !/[\u0000-\u001f\u007f]/.test(text)
  )
}

/** A new token for the API of this node. Errors: SCOPE_UNKNOWN, SCOPES_TOO_LONG, KeptError. */
export function issueApiToken(
  tokens: TokenService,
  { subject, scopes, lifeSeconds }: ApiTokenGrant,
): Promise<IssuedToken> {
  const claims = { scope: scopeClaim(scopes) }
  return tokens.issue({ audience: API_AUDIENCE, subject, lifeSeconds, claims })
}

/** Tells whose api tokens are. */
export class Callers {
  readonly #tokens: TokenService
  // The service remembers verified tokens; what follows from one is remembered as long as it is.
  readonly #byVerified = new WeakMap<VerifiedToken, Caller>()
  readonly #thisTurn = new Map<string, Caller>()

  constructor(tokens: TokenService) {
    this.#tokens = tokens
  }

  /**
   * Whose token `token` is, if it was looked at in this turn of the event loop. Requests that came
   * together share a look: that is a third of what a small read costs, and no moment lies between them
   * in which the token could have ended.
   */
  known(token: string): Caller | undefined {
    return this.#thisTurn.get(token)
  }

  /** Whose api token `token` is. Errors: TOKEN_INVALID, KeptError. */
  async of(token: string): Promise<Caller> {
    const verified = await this.#tokens.verify(token, API_AUDIENCE)
    let caller = this.#byVerified.get(verified)
    if (caller === undefined) {
      const { subject, expiresAt, claims } = verified
      caller = { subject, expiresAt, grant: grantOf(claims.scope) }
      this.#byVerified.set(verified, caller)
    }
    if (this.#thisTurn.size === 0) setImmediate(() => this.#thisTurn.clear())
    this.#thisTurn.set(token, caller)
    return caller
  }
}

/** Whether `caller` may do what `need` says; null, where no tokens are required, may do all. */
export function may(caller: Caller | null, need: Need): boolean {
  return caller === null || allows(caller.grant, need)
}
