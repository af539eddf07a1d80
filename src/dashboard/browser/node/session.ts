export interface SessionOptions {
  readonly fetch: typeof globalThis.fetch
  /** The URL of the node, ending in `/`. */
  readonly base: string
  /** A monotonic clock, milliseconds. */
  readonly now: () => number
  /** Called when the state changes. */
  readonly onState: (state: SessionState) => void
  /** Returns the renewal of a token that does not come from `POST /session`, or null. */
  readonly findRenewal?: () => Renew | null
}

/** Returns a valid token. Errors: SessionEnded, which ends the session; others after a failure that may pass. */
export type Renew = () => Promise<Issued>

/** The node or the issuer refuses the user. */
export class SessionEnded extends TypeError {
  override readonly name = 'SessionEnded'
}

/** `lost`: the node did not answer. `ended`: the node rejects the name and the password. */
export type SessionState = 'open' | 'lost' | 'ended'

/** Time before the expiry of a token at which the token is renewed. */
const EARLY_MS = 60_000

export interface Issued {
  /** Null if the node requires no token. */
  readonly token: string | null
  /** Time on the clock of the session. */
  readonly renewAt: number
}

/**
 * Sends requests of this page to the node, with a token if the node requires tokens. The browser remembers the name and
 * the password with which the user opened the page, and sends them with `POST /session` to get a token. The token is
 * stored only in this object. A user who signed in at an issuer has a token of the issuer instead. The session renews
 * the token before it expires, and when the node rejects it.
 */
export class Session {
  readonly #deps: SessionOptions
  #issued: Promise<Issued> | null = null
  /** Set when the session has ended. A wrong password that is sent again and again would block the user's address. */
  #ended: SessionEnded | null = null

  constructor(deps: SessionOptions) {
    this.#deps = deps
  }

  /** Sends a request like `fetch`, with the token. Errors: those of `fetch`. */
  readonly fetch = async (
    input: string | URL | Request,
    init: RequestInit = {},
  ): Promise<Response> => {
    const issued = await this.#valid()
    const reply = await this.#send(input, init, issued)
    if (reply.status !== 401) return reply
    // Retries once with a new token, because the node may have restarted, or the token may be revoked.
    if (this.#issued !== null && (await this.#issued) === issued) this.#issued = null
    const renewed = await this.#valid()
    return renewed.token === null ? reply : this.#send(input, init, renewed)
  }

  async #send(
    input: string | URL | Request,
    init: RequestInit,
    { token }: Issued,
  ): Promise<Response> {
    const headers = new Headers(init.headers)
    if (token !== null) headers.set('authorization', `Bearer ${token}`)
    return this.#watched(() => this.#deps.fetch(input, { ...init, headers }))
  }

  /** Returns the token of the next request, for a worker. */
  async token(): Promise<string | null> {
    return (await this.#valid()).token
  }

  async #valid(): Promise<Issued> {
    const known = this.#issued
    if (known !== null) {
      const issued = await known
      if (this.#deps.now() < issued.renewAt) return issued
      if (this.#issued === known) this.#issued = null
    }
    if (this.#issued === null) {
      const pending = this.#issue()
      this.#issued = pending
      // After a failure, the next request tries again.
      pending.catch(() => {
        if (this.#issued === pending) this.#issued = null
      })
    }
    return this.#issued
  }

  async #issue(): Promise<Issued> {
    const { base, fetch, now, onState, findRenewal } = this.#deps
    if (this.#ended !== null) throw this.#ended
    const renew = findRenewal?.() ?? null
    if (renew !== null) {
      return renew().catch((error: unknown) => {
        if (error instanceof SessionEnded) throw this.#end(error)
        onState('lost')
        throw error
      })
    }
    const reply = await this.#watched(() => fetch(`${base}session`, { method: 'POST' }))
    const value: unknown = await reply.json().catch(() => null)
    const response = Object(value)
    if (!reply.ok || response.status !== true) {
      const message = `no session: ${reply.status}`
      if (reply.status !== 401 && reply.status !== 429) throw new TypeError(message)
      throw this.#end(new SessionEnded(message))
    }
    onState('open')
    if (typeof response.token !== 'string') {
      return { token: null, renewAt: Number.POSITIVE_INFINITY }
    }
    // The lifetime is the difference of two times of the node's clock, because the browser's clock may be wrong.
    const lifeMs = Number(response.expires_at) - Date.parse(reply.headers.get('date') ?? '')
    return { token: response.token, renewAt: now() + Math.max((lifeMs || 0) - EARLY_MS, EARLY_MS) }
  }

  #end(error: SessionEnded): SessionEnded {
    this.#ended = error
    this.#deps.onState('ended')
    return error
  }

  async #watched(send: () => Promise<Response>): Promise<Response> {
    try {
      const reply = await send()
      if (reply.ok) this.#deps.onState('open')
      return reply
    } catch (error) {
      if (!(error instanceof DOMException && error.name === 'AbortError')) {
        this.#deps.onState('lost')
      }
      throw error
    }
  }
}
