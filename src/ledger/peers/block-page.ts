import { type RawBlock, rawBlocks } from '../../chain/index.ts'
import { OutboundError } from '../../http/outbound.ts'
import { PeerError } from './errors.ts'

/** Beginning and end of a page of blocks as a node writes it. */
const OPENING = '{"status":true,"ledgers":'
const END = /^,"limit":\d{1,15},"offset":\d{1,15}}$/
/** Precedes the height of a block. The last one in a page belongs to the last block, because no entry follows it. */
const HEIGHT = ',"proof":{"height":'

/** A page of blocks that another node has sent. Its text is not decoded before the mirror stores it. */
export class BlockPage {
  /** Height of the first block. */
  readonly from: number
  /** Height after the last block, which `blocks` checks. */
  readonly end: number
  readonly transfer: PageTransfer
  readonly #body: Buffer
  readonly #serverId: number

  /** Errors: REPLY_MALFORMED unless `body` looks like a page of one to `limit` blocks. */
  constructor(
    body: Buffer,
    { from, limit, serverId }: { from: number; limit: number; serverId: number },
    transfer: PageTransfer = new PageBudget().open(),
  ) {
    const at = body.lastIndexOf(HEIGHT) + HEIGHT.length
    const [, height = ''] = /^(0|[1-9]\d{0,14}),/.exec(body.toString('latin1', at, at + 16)) ?? []
    this.from = from
    this.end = Number(height) + 1
    this.transfer = transfer
    this.#body = body
    this.#serverId = serverId
    if (height === '' || this.end <= from || this.end > from + limit) throw this.#malformed(limit)
  }

  get bytes(): number {
    return this.#body.length
  }

  /** Decodes the blocks. Errors: REPLY_MALFORMED. */
  blocks(): readonly RawBlock[] {
    const blocksMax = this.end - this.from
    const text = this.#body.toString()
    const options = { serverId: this.#serverId, blocksMax }
    const found = text.startsWith(OPENING) ? rawBlocks(text, OPENING.length, options) : null
    const isPage = found?.blocks.length === blocksMax && END.test(text.slice(found.end))
    if (isPage) return found.blocks
    throw this.#malformed(blocksMax)
  }

  #malformed(limit: number): PeerError {
    const message = `the reply is not a list of at most ${limit} blocks from height ${this.from}`
    return new PeerError('REPLY_MALFORMED', message)
  }
}

/** Maximum bytes of all pages of a PageBudget. */
const BYTES_MAX = 128 * 1024 * 1024
/** Pages of at most this size are never aborted. */
const SMALL_BYTES = 4 * 1024 * 1024

/**
 * Limits the memory of the pages that are being received or wait until they are stored. If there are too many, the
 * oldest large transfer is aborted, so a slow source cannot keep the pages of other sources waiting.
 */
export class PageBudget {
  readonly #bytesMax: number
  /** Oldest first. */
  readonly #transfers = new Set<PageTransfer>()

  constructor(bytesMax = BYTES_MAX) {
    this.#bytesMax = bytesMax
  }

  /** Starts a transfer, which the caller closes. Aborting `signal` aborts the transfer. */
  open(signal?: AbortSignal): PageTransfer {
    const transfer = new PageTransfer(signal, {
      onGrowth: () => this.#shrink(),
      onClose: () => this.#transfers.delete(transfer),
    })
    this.#transfers.add(transfer)
    if (signal?.aborted === true) transfer.abort(signal.reason)
    return transfer
  }

  #shrink(): void {
    let bytes = 0
    for (const transfer of this.#transfers) bytes += transfer.bytes
    for (const transfer of this.#transfers) {
      if (bytes <= this.#bytesMax) return
      if (transfer.bytes <= SMALL_BYTES) continue
      bytes -= transfer.bytes
      transfer.abort(new OutboundError('TIMEOUT', 'the page took longer than those of other nodes'))
    }
  }
}

/** The transfer of a page, from the request until the page is stored. */
export class PageTransfer {
  bytes = 0
  readonly #events: { onGrowth(): void; onClose(): void }
  readonly #controller = new AbortController()
  readonly #parent: AbortSignal | undefined
  readonly #onAbort = () => this.abort(this.#parent?.reason)

  constructor(parent: AbortSignal | undefined, events: { onGrowth(): void; onClose(): void }) {
    this.#parent = parent
    this.#events = events
    parent?.addEventListener('abort', this.#onAbort)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  grow(bytes: number): void {
    this.bytes += bytes
    this.#events.onGrowth()
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason)
    this.close()
  }

  close(): void {
    this.#parent?.removeEventListener('abort', this.#onAbort)
    this.#events.onClose()
  }
}
