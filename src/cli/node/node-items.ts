import { canonicalJson } from '../../base/canonical-json.ts'
import type { JsonObject } from '../../base/json.ts'
import {
  ClientError,
  type DatabaseClient,
  type LedgerClient,
  type Operations,
} from '../../client/index.ts'
import { EXIT, Exit } from '../exit.ts'
import { connectNode, type NodeAddress, nodeExit } from './node-client.ts'

/** Maximum items per page. */
const PAGE_ITEMS = 500
/** Maximum blocks per request when `check` reads the added blocks. */
const PAGE_BLOCKS = 64
/** Timeout of a page. */
const PAGE_MS = 120_000

type Blocks = Operations['GET /api/ledgers']['reply']['ledgers']

/**
 * Reads the items of a database of a running node, in pages. The node may add blocks between two pages, so the pages
 * may show different states. After the last page, `check` reads the added blocks. If none of these blocks changed the
 * database, all pages show the state after block `height`.
 */
export class NodeItems {
  readonly #client: LedgerClient
  readonly #node: NodeAddress
  readonly #database: DatabaseClient<JsonObject>
  /** Number of blocks of the node when `open` was called. */
  #size = 0

  private constructor(node: NodeAddress, db: string) {
    this.#client = connectNode(node, { timeoutMs: PAGE_MS })
    this.#node = node
    this.#database = this.#client.database(db)
  }

  /** Reads the height of the node. Errors: Exit. */
  static async open(node: NodeAddress, db: string): Promise<NodeItems> {
    try {
      const items = new NodeItems(node, db)
      items.#size = await items.#client.size({ db })
      return items
    } catch (error) {
      throw nodeExit(error, node)
    }
  }

  /** Height of the newest block when `open` was called; null if the node had no blocks. */
  get height(): number | null {
    return this.#size === 0 ? null : this.#size - 1
  }

  /** Yields the canonical texts of the items. Errors: Exit. */
  async *read(): AsyncGenerator<readonly string[]> {
    let page: string[] = []
    try {
      for await (const item of this.#database.query({ pageSize: PAGE_ITEMS })) {
        page.push(canonicalJson(item))
        if (page.length < PAGE_ITEMS) continue
        yield page
        page = []
      }
    } catch (error) {
      throw nodeExit(error, this.#node)
    }
    yield page
  }

  /** Throws Exit (finding) if a block after `height` changed the database. */
  async check(): Promise<void> {
    for await (const blocks of this.#blocks()) {
      if (blocks.every(({ body }) => body.length === 0)) continue
      const message =
        `${this.#database.name} changed during the dump; run the dump again, or run it on the machine of the node ` +
        'without --url, which works even if the database changes'
      throw new Exit(EXIT.finding, message)
    }
  }

  async close(): Promise<void> {}

  /** Yields the blocks from height `#size` in pages, with only the entries of the database. Errors: Exit. */
  async *#blocks(): AsyncGenerator<Blocks> {
    const serverid = String(await this.#client.serverId())
    let limit = PAGE_BLOCKS
    for (let offset = this.#size; ; ) {
      const query = { serverid, db: this.#database.name, offset, limit }
      try {
        const { ledgers } = await this.#client.request('GET /api/ledgers', { query })
        if (ledgers.length === 0) return
        yield ledgers
        offset += ledgers.length
      } catch (error) {
        const isTooLarge = error instanceof ClientError && error.code === 'REPLY_TOO_LARGE'
        if (!isTooLarge || limit === 1) throw nodeExit(error, this.#node)
        limit = Math.ceil(limit / 2)
      }
    }
  }
}
