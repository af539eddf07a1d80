import { canonicalJson } from '../../base/canonical-json.ts'
import type { Json } from '../../base/json.ts'
import { joinUrl } from '../../base/url.ts'
import { EXIT, Exit } from '../exit.ts'
import {
  callNode,
  fetchFromNode,
  type LedgerReply,
  type NodeAddress,
  ReplyTooLong,
} from './node-client.ts'

/** Maximum items per request. */
const PAGE_ITEMS = 500
/** Maximum blocks per request when `check` reads the added blocks. */
const PAGE_BLOCKS = 64

interface ItemsReply extends LedgerReply {
  readonly docs: readonly Json[]
  readonly cursor?: string | null
}

interface BlocksReply extends LedgerReply {
  readonly ledgers: readonly { readonly body: readonly { readonly db: string }[] }[]
}

/**
 * Reads the items of a database of a running node, in pages. The node may add blocks between two pages, so the pages
 * may show different states. After the last page, `check` reads the added blocks. If none of these blocks changed the
 * database, all pages show the state after block `height`.
 */
export class NodeItems {
  /** Number of blocks of the node when `open` was called. */
  readonly #size: number
  readonly #node: NodeAddress
  readonly #db: string
  readonly #serverId: number

  private constructor(node: NodeAddress, db: string, serverId: number, size: number) {
    this.#node = node
    this.#db = db
    this.#serverId = serverId
    this.#size = size
  }

  /** Reads the server id and the height of the node. Errors: Exit. */
  static async open(node: NodeAddress, db: string): Promise<NodeItems> {
    type Reply = LedgerReply & { readonly serverid: number }
    const { serverid } = await callNode<Reply>(node, '/api/serverid', 'GET')
    let size = await sizeOf(node, serverid)
    // A checkpoint can be older than the newest blocks.
    for await (const { length } of blocksFrom(node, serverid, size)) size += length
    return new NodeItems(node, db, serverid, size)
  }

  /** Height of the newest block when `open` was called; null if the node had no blocks. */
  get height(): number | null {
    return this.#size === 0 ? null : this.#size - 1
  }

  /** Yields the canonical texts of the items. Errors: Exit. */
  async *read(): AsyncGenerator<readonly string[]> {
    const page = pageReader<ItemsReply>(this.#node, PAGE_ITEMS)
    for (let cursor: string | null = 'start'; cursor !== null; ) {
      const reply: ItemsReply = await page(
        `/api/${encodeURIComponent(this.#db)}?docs=true&cursor=${cursor}`,
      )
      yield reply.docs.map(canonicalJson)
      if (reply.cursor === undefined || reply.cursor === cursor) {
        // Otherwise the dump would not end.
        throw new Exit(
          EXIT.finding,
          `the server at ${this.#node.url} sends no cursor: is it a node?`,
        )
      }
      cursor = reply.cursor
    }
  }

  /** Throws Exit (finding) if a block after `height` changed the database. */
  async check(): Promise<void> {
    for await (const blocks of blocksFrom(this.#node, this.#serverId, this.#size)) {
      if (!blocks.some(({ body }) => body.some(({ db }) => db === this.#db))) continue
      const message =
        `${this.#db} changed during the dump; run the dump again, or run it on the machine of the node ` +
        'without --url, which works even if the database changes'
      throw new Exit(EXIT.finding, message)
    }
  }

  async close(): Promise<void> {}
}

/** Returns a function that reads a page. Pages have up to `limit` elements, and shrink if a reply is too long. */
function pageReader<Reply extends LedgerReply>(
  node: NodeAddress,
  limit: number,
): (path: string) => Promise<Reply> {
  let size = limit
  return async (path) => {
    for (;;) {
      try {
        return await callNode<Reply>(node, `${path}&limit=${size}`, 'GET')
      } catch (error) {
        const isTooLong = error instanceof Exit && error.cause instanceof ReplyTooLong
        if (!isTooLong || size === 1) throw error
        size = Math.ceil(size / 2)
      }
    }
  }
}

/** Yields the blocks from height `next` in pages, up to the newest block. Errors: Exit. */
async function* blocksFrom(
  node: NodeAddress,
  serverId: number,
  next: number,
): AsyncGenerator<BlocksReply['ledgers']> {
  const page = pageReader<BlocksReply>(node, PAGE_BLOCKS)
  for (let height = next; ; ) {
    const { ledgers } = await page(`/api/ledgers?serverid=${serverId}&offset=${height}`)
    if (ledgers.length === 0) return
    yield ledgers
    height += ledgers.length
  }
}

/** Returns the number of blocks that the newest checkpoint covers. Errors: Exit. */
async function sizeOf({ url, token }: NodeAddress, serverId: number): Promise<number> {
  const address = joinUrl(url, `/api/ledgers/${serverId}/checkpoint`)
  const headers: Record<string, string> = token === undefined ? {} : { 'x-access-token': token }
  const { status, bytes } = await fetchFromNode(address, { headers })
  const [, size = ''] = bytes.toString().split('\n')
  if (status === 200 && /^\d{1,15}$/.test(size)) return Number(size)
  // A node without blocks has no checkpoint. This call throws if the first request failed for another reason.
  await callNode({ url, token }, `/api/ledgers?serverid=${serverId}&limit=1`, 'GET')
  return 0
}
