import { hash, type KeyObject, randomBytes, sign, timingSafeEqual } from 'node:crypto'
import { type Clock, type Schedule, systemSchedule } from '../../base/clock.ts'
import { logOrigin, nodeVerifySignature } from '../../chain/index.ts'
import { PeerError } from './errors.ts'

// Requests between nodes are signed with the node key. Source: RFC 9421, RFC 9530 (content-digest).

/** The components of a request that a signature covers, in this order. */
const COMPONENTS = '("@method" "@authority" "@path" "@query" "content-digest")'
const INPUT =
  /^sig1=(\("@method" "@authority" "@path" "@query" "content-digest"\);created=(\d{1,12});expires=(\d{1,12});nonce="([A-Za-z0-9_-]{16,64})";keyid="([^"\\]{1,100})";alg="ed25519";tag="daicho-sync")$/
const SIGNATURE = /^sig1=:([A-Za-z0-9+/]{86}==):$/
const DIGEST = /^sha-256=:[A-Za-z0-9+/]{43}=:$/
const NONCE_BYTES = 16
/** Lifetime of a signature that this node makes, seconds. */
const VALID_S = 60
/** Maximum lifetime of a signature that this node accepts, seconds. */
const VALID_S_MAX = 300
/** Maximum time by which the clock of the other node may be ahead, seconds. */
const SKEW_S = 30
/** Maximum nonces of a peer in memory. At this number, its signed requests are rejected until nonces expire. */
const NONCES_MAX = 30_000

/** The components of a request that are signed besides its body. */
export interface SignedParts {
  readonly method: string
  /** Host and port in lower case, without the default port of the scheme. */
  readonly authority: string
  readonly path: string
  /** Begins with a question mark, even if the query is empty. */
  readonly query: string
}

export interface Signer {
  readonly keyId: string
  readonly privateKey: KeyObject
  readonly nowMs: number
  /** A random value, accepted only once. */
  readonly nonce: string
}

export function signatureHeaders(
  request: SignedParts,
  body: Uint8Array,
  { keyId, privateKey, nowMs, nonce }: Signer,
): Record<string, string> {
  const created = Math.floor(nowMs / 1000)
  const digest = contentDigest(body)
  const params =
    `${COMPONENTS};created=${created};expires=${created + VALID_S};nonce="${nonce}";` +
    `keyid="${keyId}";alg="ed25519";tag="daicho-sync"`
  const signature = sign(null, Buffer.from(signatureBase(request, digest, params)), privateKey)
  return {
    'content-digest': digest,
    'signature-input': `sig1=${params}`,
    signature: `sig1=:${signature.toString('base64')}:`,
  }
}

export class NodeSigner {
  readonly #keyId: string
  readonly #privateKey: KeyObject
  readonly #clock: Clock
  readonly #random: (bytes: number) => Buffer

  constructor(
    node: { serverId: number; privateKey: KeyObject },
    clock: Clock,
    random: (bytes: number) => Buffer = randomBytes,
  ) {
    this.#keyId = logOrigin(node.serverId)
    this.#privateKey = node.privateKey
    this.#clock = clock
    this.#random = random
  }

  headers(method: string, url: URL, body: Uint8Array): Record<string, string> {
    const { host: authority, pathname: path, search } = url
    const query = search === '' ? '?' : search
    return signatureHeaders({ method, authority, path, query }, body, {
      keyId: this.#keyId,
      privateKey: this.#privateKey,
      nowMs: this.#clock.now(),
      nonce: this.#random(NONCE_BYTES).toString('base64url'),
    })
  }
}

export interface ReceivedRequest {
  readonly method?: string | undefined
  /** Path and query. */
  readonly url?: string | undefined
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

/** The verified signer of a request, and the digest that its body must have. */
export interface RequestSignature {
  readonly keyId: string
  readonly digest: string
}

/**
 * Verifies signed requests, and accepts each request only once, also after a restart: a request that an earlier process
 * accepted was signed before the start of this one, because no request is accepted before the time of its signature.
 */
export class SignedRequests {
  readonly #keyOf: (keyId: string) => Uint8Array | null
  readonly #clock: Clock
  readonly #schedule: Schedule
  readonly #noncesMax: number
  readonly #startMs: number
  /** Used nonces by the key id, with the second in which they expire, oldest first. */
  readonly #used = new Map<string, Map<string, number>>()

  /** `keyOf` returns the raw public key of an allowed key id, or null. */
  constructor(
    keyOf: (keyId: string) => Uint8Array | null,
    clock: Clock,
    schedule: Schedule = systemSchedule,
    noncesMax = NONCES_MAX,
  ) {
    this.#keyOf = keyOf
    this.#clock = clock
    this.#schedule = schedule
    this.#noncesMax = noncesMax
    this.#startMs = clock.now()
  }

  /** Verifies a request before its body is read. Errors: SIGNATURE_REFUSED. */
  async verify(request: ReceivedRequest): Promise<RequestSignature> {
    const { signature, digest, params, created, expires, nonce, keyId } = requireSignature(request)
    const nowMs = this.#clock.now()
    const nowS = Math.floor(nowMs / 1000)
    if (created > nowS + SKEW_S || expires < nowS || expires - created > VALID_S_MAX) {
      throw refused('the signature has expired or is not valid yet; check the clocks of both nodes')
    }
    // If the clock was set back, the start says nothing about the time of the request.
    if (created * 1000 < this.#startMs && nowMs >= this.#startMs) {
      throw refused('this node started after the request was signed; sign it again')
    }
    const key = this.#keyOf(keyId)
    if (key === null)
      throw refused('the key of the signature does not belong to a peer of this node')
    const base = Buffer.from(signatureBase(toComponents(request), digest, params))
    if (!(await nodeVerifySignature(key, base, signature))) {
      throw refused('the signature is wrong')
    }
    const earlyMs = created * 1000 - nowMs
    if (earlyMs > 0) await new Promise<void>((wake) => this.#schedule.after(earlyMs, wake))
    this.#use(keyId, nonce, expires, nowS)
    return { keyId, digest }
  }

  /** Verifies a request without a body. Errors: SIGNATURE_REFUSED. */
  async verifyBodiless(request: ReceivedRequest): Promise<void> {
    const { digest } = await this.verify(request)
    if (!matchesDigest(digest, new Uint8Array()))
      throw refused('a read must be signed for an empty body')
  }

  /** Marks a nonce as used. Called only for verified requests, so that each peer can fill only its own map. */
  #use(keyId: string, nonce: string, expires: number, nowS: number): void {
    const all = this.#used.get(keyId) ?? new Map<string, number>()
    this.#used.set(keyId, all)
    for (const [used, until] of all) {
      if (until >= nowS) break
      all.delete(used)
    }
    if (all.has(nonce)) throw refused('the nonce of the request was used before')
    if (all.size >= this.#noncesMax) throw refused('too many signed requests; try again later')
    all.set(nonce, expires)
  }
}

export function matchesDigest(digest: string, body: Uint8Array): boolean {
  const [received, expected] = [Buffer.from(digest), Buffer.from(contentDigest(body))]
  return received.length === expected.length && timingSafeEqual(received, expected)
}

function contentDigest(body: Uint8Array): string {
  return `sha-256=:${hash('sha256', body, 'base64')}:`
}

function signatureBase(request: SignedParts, digest: string, params: string): string {
  return [
    `"@method": ${request.method}`,
    `"@authority": ${request.authority}`,
    `"@path": ${request.path}`,
    `"@query": ${request.query}`,
    `"content-digest": ${digest}`,
    `"@signature-params": ${params}`,
  ].join('\n')
}

function toComponents({ method = '', url = '', headers }: ReceivedRequest): SignedParts {
  // The query begins at the first question mark, and can contain further question marks.
  const [path = '', ...query] = url.split('?')
  const authority = singleHeader(headers.host).toLowerCase()
  return { method, authority, path, query: `?${query.join('?')}` }
}

function requireSignature({ headers }: ReceivedRequest) {
  const input = INPUT.exec(singleHeader(headers['signature-input']))
  const encoded = SIGNATURE.exec(singleHeader(headers.signature))
  const digest = singleHeader(headers['content-digest'])
  const [, params = '', created = '', expires = '', nonce = '', keyId = ''] = input ?? []
  if (input === null || encoded === null || !DIGEST.test(digest)) {
    throw refused('the request has no signature of a node (RFC 9421)')
  }
  const signature = Buffer.from(encoded[1] ?? '', 'base64')
  const [createdS, expiresS] = [Number(created), Number(expires)]
  return { signature, digest, params, created: createdS, expires: expiresS, nonce, keyId }
}

function singleHeader(header: string | string[] | undefined): string {
  return typeof header === 'string' ? header : ''
}

function refused(message: string): PeerError {
  return new PeerError('SIGNATURE_REFUSED', message)
}
