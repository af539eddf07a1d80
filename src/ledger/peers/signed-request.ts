import { hash, type KeyObject, randomBytes, sign, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../../base/clock.ts'
import { logOrigin, nodeVerifySignature } from '../../chain/index.ts'
import { PeerError } from './errors.ts'

/** What is signed of a request, in this order. */
const COMPONENTS = '("@method" "@authority" "@path" "@query" "content-digest")'
const LABEL = 'sig1'
const TAG = 'daicho-sync'
/** How long a signature is valid, and how far clocks may be apart; seconds. */
const VALID_S = 60
const VALID_S_MAX = 300
const SKEW_S = 30
/** Nonces that are remembered; more requests than that within their time are refused. */
const NONCES_MAX = 100_000

/** A request as it is signed. */
export interface Request {
  readonly method: string
  /** Host and port in lower case, the port left out where it is that of the scheme. */
  readonly authority: string
  readonly path: string
  /** With its question mark, which stands there also when there is no query. */
  readonly query: string
}

/** Who signs, when, and with what that is used once. */
export interface Signer {
  readonly keyId: string
  readonly privateKey: KeyObject
  readonly nowMs: number
  readonly nonce: string
}

/**
 * The headers that sign a request with `body`.
 * Source: RFC 9421, RFC 9530 (content-digest).
 */
export function signatureHeaders(
  request: Request,
  body: Uint8Array,
  { keyId, privateKey, nowMs, nonce }: Signer,
): Record<string, string> {
  const created = Math.floor(nowMs / 1000)
  const digest = contentDigest(body)
  const params =
    `${COMPONENTS};created=${created};expires=${created + VALID_S};nonce="${nonce}";` +
    `keyid="${keyId}";alg="ed25519";tag="${TAG}"`
  const signature = sign(null, Buffer.from(signatureBase(request, digest, params)), privateKey)
  return {
    'content-digest': digest,
    'signature-input': `${LABEL}=${params}`,
    signature: `${LABEL}=:${signature.toString('base64')}:`,
  }
}

const NONCE_BYTES = 16

/** Signs what a node asks of others, with its key. */
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

  /** The headers that sign one request to `url` with `body`, which is empty where there is none. */
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

/** `sha-256=:<base64>:` of `body`. */
function contentDigest(body: Uint8Array): string {
  return `sha-256=:${hash('sha256', body, 'base64')}:`
}

/** Whether `body` is what the signed digest is of. */
export function isDigestOf(digest: string, body: Uint8Array): boolean {
  const [given, own] = [Buffer.from(digest), Buffer.from(contentDigest(body))]
  return given.length === own.length && timingSafeEqual(given, own)
}

function signatureBase(request: Request, digest: string, params: string): string {
  return [
    `"@method": ${request.method}`,
    `"@authority": ${request.authority}`,
    `"@path": ${request.path}`,
    `"@query": ${request.query}`,
    `"content-digest": ${digest}`,
    `"@signature-params": ${params}`,
  ].join('\n')
}

/** The headers of a request, names in lower case. */
export type SignedHeaders = Readonly<Record<string, string | string[] | undefined>>

const INPUT =
  /^sig1=(\("@method" "@authority" "@path" "@query" "content-digest"\);created=(\d{1,12});expires=(\d{1,12});nonce="([A-Za-z0-9_-]{16,64})";keyid="([^"\\]{1,100})";alg="ed25519";tag="daicho-sync")$/
const SIGNATURE = /^sig1=:([A-Za-z0-9+/]{86}==):$/

/** Verifies signed requests, each of which is taken once. */
export class SignedRequests {
  /** Nonces that were used, with the second in which they expire, oldest first. */
  readonly #used = new Map<string, number>()

  /**
   * Whose request this is, by the id of the key, and the digest that its body must have: to be called
   * before the body is read. `keyOf` gives the raw public key of an id that is allowed, or null.
   * Errors: SIGNATURE_REFUSED.
   */
  async verify(
    request: Request,
    headers: SignedHeaders,
    keyOf: (keyId: string) => Uint8Array | null,
    nowMs: number,
  ): Promise<{ readonly keyId: string; readonly digest: string }> {
    const { signature, digest, params, created, expires, nonce, keyId } = partsOf(headers)
    const nowS = Math.floor(nowMs / 1000)
    if (created > nowS + SKEW_S || expires < nowS || expires - created > VALID_S_MAX) {
      throw refused('the signature is not valid now: the clocks may differ')
    }
    const key = keyOf(keyId)
    if (key === null) throw refused('the key is not that of a peer')
    const base = Buffer.from(signatureBase(request, digest, params))
    if (!(await nodeVerifySignature(key, base, signature))) {
      throw refused('the signature does not hold')
    }
    this.#use(`${keyId} ${nonce}`, expires, nowS)
    return { keyId, digest }
  }

  /** Only what is signed counts, so nobody else can fill this. Errors: SIGNATURE_REFUSED. */
  #use(nonce: string, expires: number, nowS: number): void {
    for (const [used, until] of this.#used) {
      if (until >= nowS) break
      this.#used.delete(used)
    }
    if (this.#used.has(nonce)) throw refused('the request was made before')
    if (this.#used.size >= NONCES_MAX) throw refused('too many requests are remembered')
    this.#used.set(nonce, expires)
  }
}

function partsOf(headers: SignedHeaders) {
  const input = INPUT.exec(textOf(headers['signature-input']))
  const encoded = SIGNATURE.exec(textOf(headers.signature))
  const digest = textOf(headers['content-digest'])
  const [, params = '', created = '', expires = '', nonce = '', keyId = ''] = input ?? []
  if (input === null || encoded === null || !/^sha-256=:[A-Za-z0-9+/]{43}=:$/.test(digest)) {
    throw refused('the request is not signed as nodes sign (RFC 9421)')
  }
  return {
    signature: Buffer.from(encoded[1] ?? '', 'base64'),
    digest,
    params,
    created: Number(created),
    expires: Number(expires),
    nonce,
    keyId,
  }
}

function textOf(header: string | string[] | undefined): string {
  return typeof header === 'string' ? header : ''
}

function refused(what: string): PeerError {
  return new PeerError('SIGNATURE_REFUSED', what)
}
