import { setImmediate } from 'node:timers/promises'
import type { Block } from '../../chain/index.ts'
import type { Filter } from '../../filter/index.ts'
import {
  type FoundItem,
  openStoreReader,
  type StoredItem,
  StoreError,
  type StoreLocation,
  type StoreReader,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { searchPages } from './queries.ts'

const ITEMS_PER_PAGE = 256
const BLOCKS_PER_PAGE = 64
const BLOCKS_PER_COUNT = 2_000

/** Selects a page of a list. `limit` 0 means no limit. */
export interface ListRange {
  readonly limit: number
  readonly offset: number
}

export interface ChainSize {
  readonly blocks: number
  readonly entries: number
}

/** Returns the packed position of the entry that created `db`. Errors: DATABASE_NOT_FOUND. */
export async function requireDatabase(store: StoreReader, db: string): Promise<number> {
  const database = await store.database(db)
  if (database !== null) return database.created
  throw new LedgerError('DATABASE_NOT_FOUND', `there is no database ${db}`)
}

/**
 * Reads up to `limit` rows, or all rows if `limit` is 0, page by page. `read` returns the next rows, at most as many as
 * its argument says. The caller may empty a page, so that no row stays in memory during a long reply. Yields to the
 * event loop between two pages.
 */
export async function* pagesOf<Row>(
  limit: number,
  pageRows: number,
  read: (rows: number) => Promise<Row[]>,
): AsyncGenerator<Row[]> {
  let left = limit === 0 ? Number.POSITIVE_INFINITY : limit
  while (left > 0) {
    const page = await read(Math.min(left, pageRows))
    if (page.length === 0) return
    left -= page.length
    yield page
    await setImmediate()
  }
}

/**
 * Reads a range of items or ids, page by page. Each page after the first starts after the last row of the previous
 * page, so its cost does not grow with the offset.
 */
export function itemPages<Row extends { created: number }>(
  { limit, offset }: ListRange,
  pageRows: number,
  after: number,
  read: (from: { after: number; offset: number; limit: number }) => Promise<Row[]>,
): AsyncGenerator<Row[]> {
  let from = { after, offset }
  return pagesOf<Row>(limit, pageRows, async (rows) => {
    const page = await read({ ...from, limit: rows })
    const last = page.at(-1)?.created ?? Number.POSITIVE_INFINITY
    // In a damaged store, a page could end before its start. Then the list would repeat items and never end.
    if (last <= from.after) {
      throw new StoreError('STORE_DAMAGED', 'the items of a database are not in order')
    }
    from = { after: last, offset: 0 }
    return page
  })
}

/** Reads the blocks of a store's chain from height `offset` on, page by page. */
export function blockPages(store: StoreReader, range: ListRange): AsyncGenerator<Block[]> {
  let next = range.offset
  return pagesOf<Block>(range.limit, BLOCKS_PER_PAGE, async (rows) => {
    const blocks = await store.blocks(store.serverId, next, rows)
    next += blocks.length
    return blocks
  })
}

/** Counts the blocks and entries of the node's own chain. Each call reads only the blocks since the previous call. */
export class ChainCount {
  readonly #store: StoreReader
  #counted: ChainSize = { blocks: 0, entries: 0 }
  #counting: Promise<ChainSize> | null = null

  constructor(store: StoreReader) {
    this.#store = store
  }

  /** Returns the size of the chain. The first call can take seconds, but does not block the event loop. */
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

/** Reads the databases and the chain of one node. Except for `requireDatabase`, a missing database counts as empty. */
export class LedgerReader {
  readonly serverId: number
  readonly location: StoreLocation
  readonly #store: StoreReader

  constructor(location: StoreLocation, store: StoreReader) {
    this.location = location
    this.serverId = store.serverId
    this.#store = store
  }

  /** Opens a connection to the store at `location`, even if a node has the store open. */
  static async open(location: StoreLocation): Promise<LedgerReader> {
    return new LedgerReader(location, await openStoreReader(location, { frozen: false }))
  }

  /** Like `open`, but every read returns the state at the time of the first read. */
  static async openSnapshot(location: StoreLocation): Promise<LedgerReader> {
    return new LedgerReader(location, await openStoreReader(location, { frozen: true }))
  }

  /** Returns the height of the newest block, or null. */
  async height(): Promise<number | null> {
    return (await this.#store.head(this.serverId))?.height ?? null
  }

  /** Rejects with DATABASE_NOT_FOUND if there is no database `db`. */
  async requireDatabase(db: string): Promise<void> {
    await requireDatabase(this.#store, db)
  }

  /** Returns the packed position of the entry that created `db`, or null if there is no such database. */
  async databaseCreated(db: string): Promise<number | null> {
    return (await this.#store.database(db))?.created ?? null
  }

  readItem(db: string, id: string): Promise<StoredItem | null> {
    return this.#store.item(db, id)
  }

  /** Counts the items of `db` with ids from `from` (inclusive) to `to` (exclusive). */
  async countIds(db: string, from: string, to: string): Promise<number> {
    const database = await this.#store.database(db)
    return database === null ? 0 : this.#store.countIds(database.created, from, to)
  }

  /** Lists all items of `db` in creation order, page by page. */
  async *listItems(db: string): AsyncGenerator<StoredItem[]> {
    const database = await this.#store.database(db)
    if (database === null) return
    const all = { limit: 0, offset: 0 }
    yield* itemPages(all, ITEMS_PER_PAGE, -1, (from) =>
      this.#store.listItems(database.created, from),
    )
  }

  /**
   * Finds the items of `db` that match `filter`, page by page. If `docs` is false, reads only their ids.
   * Errors: StoreError (SEARCH_TOO_LARGE), before the first page.
   */
  async findItems(db: string, filter: Filter, docs: boolean): Promise<AsyncIterable<FoundItem[]>> {
    const database = await this.#store.database(db)
    if (database === null) return NO_PAGES
    const query = { filter, after: null, docs }
    return (await searchPages(this.#store, database.created, query)).pages
  }

  /** Lists the blocks of the chain from `height` on, page by page. */
  blocks(height: number) {
    return blockPages(this.#store, { offset: height, limit: 0 })
  }

  /** See `StoreReader.timeline`. */
  get timeline(): number {
    return this.#store.timeline
  }

  /** See `StoreReader.requireTimeline`. */
  requireTimeline(timeline: number): void {
    this.#store.requireTimeline(timeline)
  }

  /** Makes the next read include all changes that are durable now. */
  refresh(): void {
    this.#store.refresh()
  }

  close(): Promise<void> {
    return this.#store.close()
  }
}

const NO_PAGES: AsyncIterable<FoundItem[]> = { async *[Symbol.asyncIterator]() {} }
