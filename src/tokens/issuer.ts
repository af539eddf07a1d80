import type { createLocalJWKSet } from 'jose'
import type { Clock, Schedule } from '../base/clock.ts'
import { errorMessage } from '../base/errors.ts'
import { isJsonObject, type JsonObject } from '../base/json.ts'
import { parseForeignJson } from '../base/strict-json.ts'
import type { Outbound, OutboundPolicy } from '../http/outbound.ts'
import { TokenError } from './errors.ts'

/** Interval at which the keys of an issuer are fetched. */
const REFRESH_MS = 5 * 60_000
/** Time until the next attempt after a failure, and minimum time between two attempts for an unknown key. */
const RETRY_MS = 30_000
/** Time for which the last keys are used while the issuer cannot be reached. */
const KEYS_VALID_MS = 24 * 3_600_000
/** Maximum time of a reply. */
const TIMEOUT_MS = 5_000
/** Maximum bytes of a reply. */
const REPLY_BYTES_MAX = 512 * 1024
const KEYS_MAX = 100
/** Signatures that only the issuer can make. A key of HS256 is a secret that the node would share. */
const ALGORITHMS = ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA']
const KEY_TYPES = ['RSA', 'EC', 'OKP']

/** The addresses at which a browser signs in. */
export interface SignInEndpoints {
  readonly authorization: URL
  readonly token: URL
}

/** Metadata and keys of an issuer. */
interface Published {
  readonly algorithms: string[]
  readonly findKey: ReturnType<typeof createLocalJWKSet>
  /** Null if the issuer has no browser sign-in. */
  readonly signIn: SignInEndpoints | null
  /** Differs if any of the above differs. */
  readonly digest: string
}

export interface IssuerDeps {
  readonly clock: Clock
  readonly schedule: Schedule
  readonly outbound: Pick<Outbound, 'get'>
  /** Whether the issuer may have a private address, and then use http. */
  readonly allowPrivate: boolean
  /** Receives a line when an issuer becomes unavailable or available, or another reason prevents its use. */
  readonly report: (message: string) => void
}

/**
 * An OpenID Connect issuer with its keys, which are fetched in the background. While an issuer cannot be reached, its
 * last keys stay valid for KEYS_VALID_MS. Source: OpenID Connect Discovery 1.0; RFC 7517.
 */
export class Issuer {
  /** The `iss` claim of its tokens, also the address of its metadata. */
  readonly name: string
  /** Number of times that the keys changed. */
  generation = 0
  /** One error for all requests, because each error is logged once. */
  readonly outage: TokenError
  readonly #deps: IssuerDeps
  readonly #stopping = new AbortController()
  #published: Published | null = null
  #fetchedAt = 0
  #triedAt = Number.NEGATIVE_INFINITY
  #isRefreshing = false
  #failure: string | null = null
  #cancel = () => {}

  /** Starts to fetch the keys. */
  constructor(name: string, deps: IssuerDeps) {
    this.name = name
    const message = `the keys of the issuer ${name} are not available; try again later`
    this.outage = new TokenError('ISSUER_UNAVAILABLE', message)
    this.#deps = deps
    void this.#refresh()
  }

  /** Returns the metadata and keys that the issuer published last. Errors: ISSUER_UNAVAILABLE. */
  current(): Published {
    const ageMs = this.#deps.clock.now() - this.#fetchedAt
    if (this.#published !== null && ageMs <= KEYS_VALID_MS) return this.#published
    // The keys can also be old because the computer was asleep. Then the timer would come minutes later.
    this.refreshSoon()
    throw this.outage
  }

  /** Fetches the keys for a token with an unknown key, unless this was tried lately. Returns whether it is in progress. */
  refreshSoon(): boolean {
    const isDue = this.#deps.clock.now() - this.#triedAt >= RETRY_MS
    if (isDue && !this.#isRefreshing) void this.#refresh()
    return this.#isRefreshing
  }

  stop(): void {
    this.#cancel()
    this.#stopping.abort(new Error('the node is closing'))
  }

  async #refresh(): Promise<void> {
    const { clock, schedule, report } = this.#deps
    this.#cancel()
    this.#isRefreshing = true
    this.#triedAt = clock.now()
    try {
      const published = await this.#fetch()
      if (published.digest !== this.#published?.digest) {
        this.#published = published
        this.generation += 1
      }
      this.#fetchedAt = clock.now()
      if (this.#failure !== null) report(`the issuer ${this.name} is available again`)
      this.#failure = null
    } catch (error) {
      if (this.#stopping.signal.aborted) return
      const message = errorMessage(error)
      if (message !== this.#failure) report(`the issuer ${this.name} is not available: ${message}`)
      this.#failure = message
    } finally {
      this.#isRefreshing = false
    }
    const waitMs = this.#failure === null ? REFRESH_MS : RETRY_MS
    this.#cancel = schedule.after(waitMs, () => void this.#refresh())
  }

  async #fetch(): Promise<Published> {
    const metadata = await this.#get(
      new URL(`${this.name.replace(/\/$/, '')}/.well-known/openid-configuration`),
    )
    if (metadata.issuer !== this.name) {
      const found = JSON.stringify(metadata.issuer ?? null).slice(0, 300)
      throw new Error(`it calls itself ${found}; write exactly this address into OIDC_ISSUERS`)
    }
    const jwksUri = parseUrl(metadata.jwks_uri)
    if (jwksUri === null) throw new Error('its metadata has no jwks_uri')
    const { keys } = await this.#get(jwksUri)
    if (!Array.isArray(keys) || keys.length > KEYS_MAX)
      throw new Error(`it publishes no list of at most ${KEYS_MAX} keys`)
    // Keys of other types must be ignored (RFC 7517 section 5).
    const usable = keys.filter((key) => isJsonObject(key) && KEY_TYPES.includes(String(key.kty)))
    const { createLocalJWKSet } = await import('jose')
    const signed = metadata.id_token_signing_alg_values_supported
    const algorithms = ALGORITHMS.filter((name) => !Array.isArray(signed) || signed.includes(name))
    const [authorization, token] = [metadata.authorization_endpoint, metadata.token_endpoint].map(
      parseUrl,
    )
    const isWeb = [authorization, token].every((url) => /^https?:$/.test(url?.protocol ?? ''))
    const signIn = authorization && token && isWeb ? { authorization, token } : null
    return {
      ...{ algorithms, signIn, digest: JSON.stringify([algorithms, signIn, usable]) },
      // `createLocalJWKSet` checks the list.
      findKey: createLocalJWKSet({ keys: usable as unknown as { kty: string }[] }),
    }
  }

  /** Returns a JSON object. Errors: OutboundError, StrictJsonError, Error. */
  async #get(url: URL): Promise<JsonObject> {
    const { outbound, allowPrivate } = this.#deps
    const isPlain = url.protocol === 'http:' && allowPrivate
    const policy: OutboundPolicy = {
      ...{ allowPrivate, privateSetting: 'OIDC_ALLOW_PRIVATE', privateOnly: isPlain },
      ...{ schemes: isPlain ? ['http:'] : ['https:'], timeoutMs: TIMEOUT_MS },
      ...{ bodyBytesMax: REPLY_BYTES_MAX, signal: this.#stopping.signal },
    }
    const { status, body } = await outbound.get(url, { accept: 'application/json' }, policy)
    if (status !== 200) throw new Error(`${url.href} replied with status ${status}`)
    const value = parseForeignJson(body.toString())
    if (!isJsonObject(value)) throw new Error(`${url.href} is not a JSON object`)
    return value
  }
}

function parseUrl(value: unknown): URL | null {
  return typeof value === 'string' ? URL.parse(value) : null
}
