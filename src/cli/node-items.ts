import { canonicalJson } from '../base/canonical-json.ts'
import type { Json } from '../base/json.ts'
import { joinUrl } from '../base/url.ts'
import { EXIT, Exit } from './exit.ts'
import { callNode, fetchFromNode, type LedgerReply, type NodeAddress } from './node-client.ts'

/** Items per request. */
const PAGE_ITEMS = 500
/** Blocks per request when `check` reads the added blocks. */
const PAGE_BLOCKS = 64

interface ItemsReply extends LedgerReply {
  readonly items: readonly string[]
  readonly docs: readonly Json[]
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
  /** Height of the newest block when `open` was called; null if the node had no blocks. */
  readonly height: number | null
  readonly #node: NodeAddress
  readonly #db: string
  readonly #serverId: number

  private constructor(node: NodeAddress, db: string, serverId: number, size: number) {
    this.#node = node
    this.#db = db
    this.#serverId = serverId
    this.height = size === 0 ? null : size - 1
  }

  /** Reads the server id and the height of the node. Errors: Exit. */
  static async open(node: NodeAddress, db: string): Promise<NodeItems> {
    type Reply = LedgerReply & { readonly serverid: number }
    const { serverid } = await callNode<Reply>(node, '/api/serverid', 'GET')
    return new NodeItems(node, db, serverid, await sizeOf(node, serverid))
  }

  /** Yields the canonical texts of the items. Errors: Exit. */
  async *read(): AsyncGenerator<readonly string[]> {
    let after = ''
    for (;;) {
      const path = `/api/${encodeURIComponent(this.#db)}?docs=true&limit=${PAGE_ITEMS}${after}`
      const { docs, items } = await callNode<ItemsReply>(this.#node, path, 'GET')
      const last = items.at(-1)
      if (last === undefined) return
      yield docs.map(canonicalJson)
      if (items.length < PAGE_ITEMS) return
      after = `&after=${encodeURIComponent(last)}`
    }
  }

  /** Throws Exit (finding) if a block after `height` changed the database. */
  async check(): Promise<void> {
    for (let next = (this.height ?? -1) + 1; ; ) {
      const path = `/api/ledgers?serverid=${this.#serverId}&offset=${next}&limit=${PAGE_BLOCKS}`
      const { ledgers } = await callNode<BlocksReply>(this.#node, path, 'GET')
      if (ledgers.some(({ body }) => body.some(({ db }) => db === this.#db))) {
        const message =
          `${this.#db} changed during the dump; run the dump again, or run it on the machine of the node ` +
          'without --url, which works even if the database changes'
        throw new Exit(EXIT.finding, message)
      }
      next += ledgers.length
      if (ledgers.length === 0) return
    }
  }

  async close(): Promise<void> {}
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
