import { fromBase64 } from '../../base/base64.ts'
import { Type } from '../../base/shape.ts'
import { parseShape } from '../../base/shaped-json.ts'
import { joinUrl } from '../../base/url.ts'
import {
  HASH_BYTES,
  PROVEN_BLOCK_BYTES_MAX,
  parsePosition,
  positionText,
  type Tile,
  tilePath,
} from '../../chain/index.ts'
import { type Outbound, OutboundError, systemOutbound } from '../../http/outbound.ts'
import type { StoredBlob } from '../../storage/index.ts'
import { BlockPage, PageBudget } from './block-page.ts'
import { PeerError } from './errors.ts'
import type { NodeSigner } from './signed-request.ts'

const TIMEOUT_MS = 30_000
const NO_BODY = new Uint8Array()
const SMALL_BYTES_MAX = 65_536
/** Maximum bytes of a tile: 256 headers of at most 400 bytes. */
const TILE_BYTES_MAX = 131_072
/** Maximum bytes of a page of several blocks. */
const PAGE_BYTES_MAX = 16 * 1024 * 1024
/** Maximum bytes of a page of one block. */
const BLOCK_PAGE_BYTES_MAX = PROVEN_BLOCK_BYTES_MAX + 256

const ProofReply = Type.Object({ proof: Type.Array(Type.String()) })
const PushReply = Type.Object({ size: Type.Integer(), seen: Type.Integer() })
const PartReply = Type.Object({ size: Type.Integer() })
const MissingBlobsReply = Type.Object({
  absent: Type.Array(
    Type.Object({
      sha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
      length: Type.Integer(),
      size: Type.Integer(),
    }),
  ),
  after: Type.Union([Type.String(), Type.Null()]),
  more: Type.Boolean(),
})

/** A node, and the chain to request from it. */
export interface PeerClientOptions {
  /** Root URL of the listener of the other node's ledger. */
  readonly url: string
  readonly serverId: number
  /** Whether the client may call addresses of private networks. */
  readonly allowPrivate: boolean
  /** Signs each request. Needed if the other node requires tokens and has this node as a peer. */
  readonly signer?: NodeSigner
  /** Default: the network of the system. */
  readonly outbound?: Outbound
  /** Maximum time for one reply; default 30 s. */
  readonly timeoutMs?: number
  /** Aborts all requests. */
  readonly signal?: AbortSignal
  /** Limits the memory of pages of blocks. Default: only for this client. */
  readonly pages?: PageBudget
}

/** How much of a chain a mirror has. */
export interface MirrorSize {
  /** Stored blocks. */
  readonly size: number
  /** Blocks of the newest signed head that the mirror has accepted. */
  readonly seen: number
}

/** A blob to which entries of a chain refer, but which the receiver does not have completely. */
export interface MissingBlob extends StoredBlob {
  readonly bytes: number
}

export interface MissingBlobs {
  readonly blobs: readonly MissingBlob[]
  /** Packed position of the last entry that was checked. The next page begins after this entry. */
  readonly upTo: number
  readonly more: boolean
}

/** Provides a chain. Callers do not trust the source, and verify everything that it returns. */
export type ChainSource = Pick<PeerClient, 'checkpoint' | 'blocks' | 'consistency' | 'tile'>

/** Provides blobs. Callers compare each blob with its SHA-256. */
export type BlobSource = Pick<PeerClient, 'blob'>

/**
 * Sends requests about one chain to another node. Each request has limits on time, bytes and allowed addresses.
 * Errors of all methods: OutboundError; PeerError REPLY_REFUSED, REPLY_MALFORMED.
 */
export class PeerClient {
  readonly #options: PeerClientOptions
  readonly #pages: PageBudget

  constructor(options: PeerClientOptions) {
    this.#options = options
    this.#pages = options.pages ?? new PageBudget()
  }

  /** Returns the newest signed head, as a note. */
  async checkpoint(): Promise<string> {
    return (await this.#get(this.#path('checkpoint'))).toString()
  }

  /** Returns a signed state, as a note. */
  async state(): Promise<string> {
    return (await this.#get(this.#path('state'))).toString()
  }

  /** Returns a consistency proof. `signal` aborts the request. */
  async consistency(
    from: number,
    to: number,
    signal = this.#options.signal,
  ): Promise<readonly Uint8Array[]> {
    const path = this.#path(`consistency?from=${from}&to=${to}`)
    const reply = await this.#get(path, { replyBytesMax: SMALL_BYTES_MAX, signal })
    const proof = parseShape(ProofReply, reply.toString())?.proof.map(fromBase64)
    const hashes = proof?.filter((hash) => hash?.length === HASH_BYTES)
    if (hashes !== undefined && hashes.length === proof?.length) {
      return hashes.filter((hash) => hash !== null)
    }
    throw malformed('the reply is not a consistency proof')
  }

  /** Returns a tile of hashes, or a bundle of headers. */
  async tile(tile: Tile): Promise<Uint8Array> {
    const bytes = await this.#get(this.#path(`tile/${tilePath(tile)}`), {
      replyBytesMax: TILE_BYTES_MAX,
    })
    if (tile.level === 'entries' || bytes.length === tile.width * HASH_BYTES) return bytes
    throw malformed('the reply is not a tile of the log')
  }

  /**
   * Returns at most `limit` blocks from height `from` on, or fewer if these blocks are too large for one reply. The
   * caller closes the transfer of the page.
   */
  async blocks(from: number, limit: number): Promise<BlockPage> {
    const { serverId } = this.#options
    const path = `/api/ledgers?serverid=${serverId}&offset=${from}&limit=${limit}&proof=1`
    const transfer = this.#pages.open(this.#options.signal)
    const { signal } = transfer
    const replyBytesMax = limit === 1 ? BLOCK_PAGE_BYTES_MAX : PAGE_BYTES_MAX
    try {
      const onBytes = (bytes: number) => transfer.grow(bytes)
      const body = await this.#get(path, { replyBytesMax, signal, onBytes })
      return new BlockPage(body, { from, limit, serverId }, transfer)
    } catch (error) {
      transfer.close()
      const isTooLong = error instanceof OutboundError && error.code === 'BODY_TOO_LARGE'
      if (!isTooLong || limit === 1) throw error
      return this.blocks(from, Math.ceil(limit / 8))
    }
  }

  /** Returns `length` bytes of a blob from byte `from` on, or null if the other node does not have or cannot read it. */
  async blob(sha256: string, from: number, length: number): Promise<Uint8Array | null> {
    const path = this.#path(`attachments/${sha256}`)
    const { status, body } = await this.#send('GET', path, {
      headers: { range: `bytes=${from}-${from + length - 1}` },
      replyBytesMax: Math.max(length, SMALL_BYTES_MAX),
    })
    // Other replies from 500 on, for example of a proxy, mean that the node may answer later.
    const isUnreadable = status === 500 || /^STORE_(DAMAGED|FAILED)$/.test(findErrorCode(body))
    if (status === 404 || isUnreadable) return null
    if (status === 206 && body.length === length) return body
    if (status >= 400) throw this.#refusal(status, body)
    throw malformed('the reply is not the requested part of the blob')
  }

  /** Pushes blocks in the format of `nextPush`. Returns how much of the chain the other node then has. */
  async push(body: Uint8Array): Promise<MirrorSize> {
    const path = `/api/ledgers/${this.#options.serverId}`
    const headers = { 'content-type': 'application/json' }
    const reply = await this.#send('POST', path, { headers, body })
    if (reply.status !== 200) throw this.#refusal(reply.status, reply.body)
    const mirror = parseShape(PushReply, reply.body.toString())
    if (mirror !== null) return { size: mirror.size, seen: mirror.seen }
    throw malformed('the reply to a push does not contain the size of the mirror')
  }

  /** Lists blobs that the other node lacks and to which entries after the packed position `after` (-1: all) refer. */
  async missingBlobs(after: number, limit: number): Promise<MissingBlobs> {
    const query = `${after === -1 ? '' : `after=${positionText(after)}&`}limit=${limit}`
    const reply = await this.#get(this.#path(`attachments?${query}`))
    const page = parseShape(MissingBlobsReply, reply.toString())
    const upTo = parsePosition(page?.after ?? '')
    if (page === null || page.absent.length > limit || (page.more && upTo === null)) {
      throw malformed('the reply is not a list of missing blobs')
    }
    const blobs = page.absent.map(({ sha256, length, size }) => ({ sha256, length, bytes: size }))
    // A mirror with fewer entries than this node may reply with a position before `after`, or with none. Returns
    // `after` instead, so that the caller does not check the same entries again.
    return { blobs, upTo: Math.max(after, upTo ?? -1), more: page.more }
  }

  /** Sends a part of a blob. Returns the number of bytes that the other node then has; null if it cannot store it. */
  async sendBlobPart(sha256: string, from: number, part: Uint8Array): Promise<number | null> {
    const path = this.#path(`attachments/${sha256}?offset=${from}`)
    const headers = { 'content-type': 'application/octet-stream' }
    const { status, body } = await this.#send('POST', path, { headers, body: part })
    const size = status === 200 ? parseShape(PartReply, body.toString())?.size : undefined
    if (size !== undefined) return size
    if (findErrorCode(body).startsWith('CONTENT_') || status >= 500) return null
    throw this.#refusal(status, body)
  }

  #path(part: string): string {
    return `/api/ledgers/${this.#options.serverId}/${part}`
  }

  async #get(path: string, request: SentRequest = {}): Promise<Buffer> {
    const { status, body } = await this.#send('GET', path, request)
    if (status === 200) return body
    throw this.#refusal(status, body)
  }

  #send(method: 'GET' | 'POST', path: string, request: SentRequest) {
    const { headers = {}, body = NO_BODY, replyBytesMax = SMALL_BYTES_MAX } = request
    const { signal = this.#options.signal, onBytes } = request
    const { url, allowPrivate, signer, timeoutMs = TIMEOUT_MS } = this.#options
    const { outbound = systemOutbound } = this.#options
    const target = joinUrl(url, path)
    const signed = { ...headers, ...signer?.headers(method, target, body) }
    const schemes = ['https:', 'http:'] as const
    const policy = {
      ...{ schemes, allowPrivate, privateSetting: 'PEERS_ALLOW_PRIVATE' },
      ...{ timeoutMs, bodyBytesMax: replyBytesMax, signal, onBytes },
    }
    if (method === 'GET') return outbound.get(target, signed, policy)
    return outbound.post(target, signed, body, policy)
  }

  #refusal(status: number, body: Buffer): PeerError {
    const code = findErrorCode(body)
    const reason = code === '' ? '' : ` with ${code}`
    const { host } = new URL(this.#options.url)
    return new PeerError('REPLY_REFUSED', `${host} answered ${status}${reason}`)
  }
}

interface SentRequest {
  readonly headers?: Record<string, string>
  readonly body?: Uint8Array
  readonly replyBytesMax?: number
  readonly signal?: AbortSignal | undefined
  readonly onBytes?: (bytes: number) => void
}

function malformed(message: string): PeerError {
  return new PeerError('REPLY_MALFORMED', message)
}

/** Returns the error code in a reply, or an empty string. */
function findErrorCode(body: Buffer): string {
  const [, code = ''] = /"code":"([A-Z_]{1,40})"/.exec(body.subarray(0, 1_000).toString()) ?? []
  return code
}
