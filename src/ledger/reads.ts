import { setImmediate } from 'node:timers/promises'
import type { Block } from '../chain/index.ts'
import type { Filter } from '../filter/index.ts'
import {
  type FoundItem,
  openStoreReader,
  type StoredItem,
  StoreError,
  type StoreReader,
} from '../storage/index.ts'
import { LedgerError } from './errors.ts'
import { searchPages } from './queries.ts'

/** Items read at a time. */
const ITEMS_PER_PAGE = 256
/** Blocks read at a time while a list is sent. */
const BLOCKS_PER_PAGE = 64
/** Blocks whose entries are counted at a time. */
const BLOCKS_PER_COUNT = 2_000

/** Part of a list; `limit` 0 means no limit. */
export interface ListRange {
  readonly limit: number
  readonly offset: number
}

/** The length of a chain. */
export interface ChainSize {
  readonly blocks: number
  readonly entries: number
}

/** The packed position that created the database. Errors: DATABASE_NOT_FOUND. */
export async function requireDatabase(store: StoreReader, db: string): Promise<number> {
  const database = await store.database(db)
  if (database !== null) return database.created
  throw new LedgerError('DATABASE_NOT_FOUND', `there is no database ${db}`)
}

/**
 * Reads up to `limit` rows, or all if that is 0, page by page. `read` gets the last row of the previous page,
 * if any, and the size of the next page. Between two pages the event loop serves others.
 */
export async function* pagesOf<Row>(
  limit: number,
  pageRows: number,
  read: (last: Row | undefined, rows: number) => Promise<Row[]>,
): AsyncGenerator<Row[]> {
  let left = limit === 0 ? Number.POSITIVE_INFINITY : limit
  let last: Row | undefined
  while (left > 0) {
    const page = await read(last, Math.min(left, pageRows))
    last = page.at(-1)
    if (last === undefined) return
    yield page
    left -= page.length
    await setImmediate()
  }
}

/** The items, or ids, of a range. Pages after the first start at a position, which costs the same anywhere. */
export function itemPages<Row extends { created: number }>(
  { limit, offset }: ListRange,
  pageRows: number,
  after: number,
  read: (from: { after: number; offset: number; limit: number }) => Promise<Row[]>,
): AsyncGenerator<Row[]> {
  return pagesOf<Row>(limit, pageRows, async (last, rows) => {
    const from = last === undefined ? { after, offset } : { after: last.created, offset: 0 }
    const page = await read({ ...from, limit: rows })
    // In a damaged store a page may lead back to an earlier one, and the list would never end.
    if ((page.at(-1)?.created ?? Number.POSITIVE_INFINITY) > from.after) return page
    throw new StoreError('STORE_DAMAGED', 'the items of a database are not in order')
  })
}

/** The blocks of the chain of a store from height `offset` on, page by page. */
export function blockPages(store: StoreReader, range: ListRange): AsyncGenerator<Block[]> {
  let next = range.offset
  return pagesOf<Block>(range.limit, BLOCKS_PER_PAGE, async (_last, rows) => {
    const blocks = await store.blocks(store.serverId, next, rows)
    next += blocks.length
    return blocks
  })
}

/** Counts the entries of the node's own chain on request, each block once. */
export class ChainCount {
  readonly #store: StoreReader
  #counted: ChainSize = { blocks: 0, entries: 0 }
  #counting: Promise<ChainSize> | null = null

  constructor(store: StoreReader) {
    this.#store = store
  }

  /** The first count of a long chain takes seconds, but does not block the event loop. */
  size(): Promise<ChainSize> {
    this.#counting ??= this.#count().finally(() => {
      this.#counting = null
    })
    return this.#counting
  }

  async #count(): Promise<ChainSize> {
    const { serverId } = this.#store
    const head = await this.#store.head(serverId)
    const size = head === null ? 0 : head.height + 1
    while (this.#counted.blocks < size) {
      const { blocks, entries } = this.#counted
      const to = Math.min(blocks + BLOCKS_PER_COUNT, size)
      const more = await this.#store.countEntries(serverId, blocks, to)
      this.#counted = { blocks: to, entries: entries + more }
      await setImmediate()
    }
    return this.#counted
  }
}

/** Reads the databases and the chain of one node. A database that does not exist is an empty one. */
export class LedgerReader {
  /** The id of the node. */
  readonly serverId: number
  /** The data folder. */
  readonly folder: string
  readonly #store: StoreReader

  constructor(folder: string, store: StoreReader) {
    this.folder = folder
    this.serverId = store.serverId
    this.#store = store
  }

  /** Opens a connection of its own to the store in `folder`, beside the node that has it open. */
  static open(folder: string): LedgerReader {
    return new LedgerReader(folder, openStoreReader(folder, { frozen: false }))
  }

  /** The item, or null. */
  readItem(db: string, id: string): Promise<StoredItem | null> {
    return this.#store.item(db, id)
  }

  /** How many items of `db` have ids from `from` on, before `to`. */
  async countIds(db: string, from: string, to: string): Promise<number> {
    const database = await this.#store.database(db)
    return database === null ? 0 : this.#store.countIds(database.created, from, to)
  }

  /** All items of `db` in the order of creation, page by page. */
  async *listItems(db: string): AsyncGenerator<StoredItem[]> {
    const database = await this.#store.database(db)
    if (database === null) return
    const all = { limit: 0, offset: 0 }
    yield* itemPages(all, ITEMS_PER_PAGE, -1, (from) =>
      this.#store.listItems(database.created, from),
    )
  }

  /**
   * The items of `db` that `filter` asks for, page by page; without `docs` their ids only.
   * Errors: StoreError (SEARCH_TOO_LARGE), before the first page.
   */
  async findItems(db: string, filter: Filter, docs: boolean): Promise<AsyncIterable<FoundItem[]>> {
    const database = await this.#store.database(db)
    if (database === null) return NO_PAGES
    const query = { filter, after: null, docs }
    return (await searchPages(this.#store, database.created, query)).pages
  }

  /** The blocks of the chain from `height` on, page by page. */
  blocks(height: number) {
    return blockPages(this.#store, { offset: height, limit: 0 })
  }

  /** To be called when a change is durable that the next read has to see. */
  refresh(): void {
    this.#store.refresh()
  }

  close(): Promise<void> {
    return this.#store.close()
  }
}

const NO_PAGES: AsyncIterable<FoundItem[]> = { async *[Symbol.asyncIterator]() {} }
