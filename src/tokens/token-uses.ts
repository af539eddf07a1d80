/** Maximum number of remembered tokens. When a further token is used, the least recently used token is forgotten. */
const REMEMBERED_MAX = 1_000

/** The public part of a token. All times are in milliseconds since the Unix epoch. */
export interface TokenFacts {
  /** Id of the token, for revoking it. */
  readonly jti: string
  readonly subject: string
  readonly audience: string
  /** The `scope` claim, or undefined. */
  readonly scope: unknown
  readonly issuedAt: number
  readonly expiresAt: number
}

/** A token that this process has issued or accepted. */
export interface RememberedToken extends TokenFacts {
  /** Null if the token was issued but not used yet. */
  readonly lastUsed: number | null
}

/** The tokens that this process has issued or accepted since it started, in memory. */
export class TokenUses {
  /** By `jti`, least recently used first. */
  readonly #tokens = new Map<string, RememberedToken>()

  /** Remembers a token. `lastUsed` is null for a token that was just issued and not used yet. */
  note(facts: TokenFacts, lastUsed: number | null): void {
    const { jti } = facts
    this.#tokens.delete(jti)
    this.#tokens.set(jti, { ...facts, lastUsed })
    if (this.#tokens.size <= REMEMBERED_MAX) return
    const [oldest = ''] = this.#tokens.keys()
    this.#tokens.delete(oldest)
  }

  /** Lists the tokens that have not expired at `now`, most recently used first. */
  list(now: number): readonly RememberedToken[] {
    return [...this.#tokens.values()].filter(({ expiresAt }) => expiresAt > now).reverse()
  }
}
