import { setImmediate } from 'node:timers/promises'
import type { Block } from '../chain/index.ts'
import { StoreError, type StoreReader } from '../storage/index.ts'
import { LedgerError } from './errors.ts'

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

/** Reads a range page by page. Pages after the first start at a position, which costs the same anywhere. */
export async function* pagesOf<Row extends { created: number }>(
  range: ListRange,
  pageRows: number,
  after: number,
  read: (from: { after: number; offset: number; limit: number }) => Promise<Row[]>,
): AsyncGenerator<Row[]> {
  let left = range.limit === 0 ? Number.POSITIVE_INFINITY : range.limit
  let from = { after, offset: range.offset }
  while (left > 0) {
    const page = await read({ ...from, limit: Math.min(left, pageRows) })
    const last = page.at(-1)
    if (last === undefined) return
    // In a damaged store a page may lead back to an earlier one, and the list would never end.
    if (last.created <= from.after) {
      throw new StoreError('STORE_DAMAGED', 'the items of a database are not in order')
    }
    yield page
    from = { after: last.created, offset: 0 }
    left -= page.length
  }
}

/** The blocks of the chain of a store from height `offset` on, page by page. */
export async function* blockPages(store: StoreReader, range: ListRange): AsyncGenerator<Block[]> {
  let from = range.offset
  let left = range.limit === 0 ? Number.POSITIVE_INFINITY : range.limit
  while (left > 0) {
    const blocks = await store.blocks(store.serverId, from, Math.min(left, BLOCKS_PER_PAGE))
    if (blocks.length === 0) return
    yield blocks
    from += blocks.length
    left -= blocks.length
  }
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
