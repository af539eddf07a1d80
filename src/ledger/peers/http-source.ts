import { fromBase64 } from '../../base/base64.ts'
import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import { type CutBlock, cutBlocks, HASH_BYTES, tilePath } from '../../chain/index.ts'
import { type Outbound, OutboundError, systemOutbound } from '../../http/outbound.ts'
import type { ContentSource } from './content-pull.ts'
import { PeerError } from './errors.ts'
import type { BlockPage, ChainSource } from './pull.ts'
import type { NodeSigner } from './signed-request.ts'

/** Where a chain is asked for. */
export interface SourceOptions {
  /** The root of a ledger's listener. */
  readonly url: string
  /** Whose chain. */
  readonly serverId: number
  /** Whether addresses of private networks may be called. */
  readonly allowPrivate: boolean
  /** Signs each request, for nodes that ask for tokens and know this one; absent, none is signed. */
  readonly signer?: NodeSigner
  /** The network as it is when absent. */
  readonly outbound?: Outbound
  /** For one reply, milliseconds; 30 s when absent. */
  readonly timeoutMs?: number
}

const TIMEOUT_MS = 30_000
/** How a node writes what stands around the blocks of a page. */
const PAGE_OPENING = '{"status":true,"ledgers":'
const PAGE_END = /^,"limit":\d+,"offset":\d+}$/
const NO_BODY = new Uint8Array()
const SMALL_BYTES_MAX = 65_536
/** A page of several blocks. */
const PAGE_BYTES_MAX = 16 * 1024 * 1024
/** One block: 64 MiB of entries, and what proves them. */
const BLOCK_BYTES_MAX = 80 * 1024 * 1024

/** A chain as another node serves it. Each request is bounded in time, bytes and reach. */
export class HttpSource implements ChainSource, ContentSource {
  readonly #options: SourceOptions

  constructor(options: SourceOptions) {
    this.#options = options
  }

  async checkpoint(): Promise<string> {
    return (await this.#get(this.#path('checkpoint'), SMALL_BYTES_MAX)).toString()
  }

  async consistency(from: number, to: number): Promise<Uint8Array[]> {
    const path = this.#path(`consistency?from=${from}&to=${to}`)
    const reply = jsonOf(await this.#get(path, SMALL_BYTES_MAX))
    const proof = isJsonObject(reply) && Array.isArray(reply.proof) ? reply.proof : [null]
    return proof.map((hash) => {
      const bytes = typeof hash === 'string' ? fromBase64(hash) : null
      if (bytes?.length === HASH_BYTES) return bytes
      throw malformed('this is not a consistency proof')
    })
  }

  async leaves(index: number, width: number): Promise<Uint8Array> {
    const tile = await this.#get(
      this.#path(`tile/${tilePath({ level: 0, index, width })}`),
      SMALL_BYTES_MAX,
    )
    if (tile.length === width * HASH_BYTES) return tile
    throw malformed('this is not a tile of the log')
  }

  async blocks(from: number, limit: number): Promise<BlockPage> {
    const { serverId } = this.#options
    const path = `/api/ledgers?serverid=${serverId}&offset=${from}&limit=${limit}&proof=1`
    try {
      const body = await this.#get(path, limit === 1 ? BLOCK_BYTES_MAX : PAGE_BYTES_MAX)
      const values = blocksIn(body, serverId)
      if (values !== null && values.length > 0 && values.length <= limit) {
        return { values, bytes: body.length }
      }
      throw malformed(`these are not up to ${limit} blocks from ${from} on`)
    } catch (error) {
      const isTooLong = error instanceof OutboundError && error.code === 'BODY_TOO_LARGE'
      if (!isTooLong || limit === 1) throw error
      return this.blocks(from, Math.ceil(limit / 8))
    }
  }

  async content(sha256: string, from: number, length: number): Promise<Uint8Array | null> {
    const range = { range: `bytes=${from}-${from + length - 1}` }
    const { status, body } = await this.#ask(
      this.#path(`attachments/${sha256}`),
      range,
      Math.max(length, SMALL_BYTES_MAX),
    )
    if (status === 404) return null
    if (status === 206 && body.length === length) return body
    if (status >= 400) throw refusal(this.#options.url, status, body)
    throw malformed('this is not the part of a content that was asked for')
  }

  #path(part: string): string {
    return `/api/ledgers/${this.#options.serverId}/${part}`
  }

  async #get(path: string, bodyBytesMax: number): Promise<Buffer> {
    const { status, body } = await this.#ask(path, {}, bodyBytesMax)
    if (status === 200) return body
    throw refusal(this.#options.url, status, body)
  }

  #ask(path: string, headers: Readonly<Record<string, string>>, bodyBytesMax: number) {
    const {
      url,
      allowPrivate,
      signer,
      timeoutMs = TIMEOUT_MS,
      outbound = systemOutbound,
    } = this.#options
    const target = new URL(path, url)
    const signed = signer?.headers('GET', target, NO_BODY)
    const policy = { schemes: ['https:', 'http:'] as const, allowPrivate, timeoutMs, bodyBytesMax }
    return outbound.get(target, { ...headers, ...signed }, policy)
  }
}

function refusal(url: string, status: number, body: Buffer): PeerError {
  return new PeerError('REPLY_REFUSED', `${new URL(url).host} answered ${status}${jsonCode(body)}`)
}

function malformed(what: string): PeerError {
  return new PeerError('REPLY_MALFORMED', what)
}

/** The blocks of a page, or null when it is none. Errors: REPLY_MALFORMED. */
function blocksIn(body: Buffer, serverId: number): readonly (Json | CutBlock)[] | null {
  const text = body.toString()
  if (text.startsWith(PAGE_OPENING)) {
    const cut = cutBlocks(text, PAGE_OPENING.length, serverId)
    if (cut !== null && PAGE_END.test(text.slice(cut.end))) return cut.blocks
  }
  const reply = jsonIn(text)
  return isJsonObject(reply) && Array.isArray(reply.ledgers) ? reply.ledgers : null
}

function jsonOf(body: Buffer): Json {
  return jsonIn(body.toString())
}

function jsonIn(text: string): Json {
  try {
    return parseJson(text)
  } catch {
    throw malformed('the reply is not JSON')
  }
}

/** The code that a refusal names, when it looks like one. */
function jsonCode(body: Buffer): string {
  const [code] = /"code":"[A-Z_]{1,40}"/.exec(body.subarray(0, 1_000).toString()) ?? []
  return code === undefined ? '' : ` with ${code.slice(8, -1)}`
}
