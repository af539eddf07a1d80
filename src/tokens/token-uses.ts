/** Maximum number of remembered tokens. When a further token is used, the least recently used token is forgotten. */
const REMEMBERED_MAX = 1_000

/** A token that this process has issued or accepted. All times are in milliseconds since the Unix epoch. */
export interface RememberedToken {
  /** Id of the token, for revoking it. */
  readonly jti: string
  readonly subject: string
  /** The issuer; absent for a token of this node. */
  readonly issuer?: string | undefined
  readonly audience: string
  /** The `scope` claim, or undefined. */
  readonly scope: unknown
  readonly issuedAt: number
  readonly expiresAt: number
  /** Null if the token was issued but not used yet. */
  readonly lastUsed: number | null
}

/** The tokens that this process has issued or accepted since it started, in memory. */
export class TokenUses {
  /** By `jti`, least recently used first. */
  readonly #tokens = new Map<string, RememberedToken>()

  note(token: RememberedToken): void {
    this.#tokens.delete(token.jti)
    this.#tokens.set(token.jti, token)
    if (this.#tokens.size <= REMEMBERED_MAX) return
    const [oldest = ''] = this.#tokens.keys()
    this.#tokens.delete(oldest)
  }

  /** Lists the tokens that have not expired at `now`, most recently used first. */
  list(now: number): readonly RememberedToken[] {
    return [...this.#tokens.values()].filter(({ expiresAt }) => expiresAt > now).reverse()
  }
}
