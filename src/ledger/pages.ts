import type { Block } from '../chain/index.ts'
import { StoreError, type StoreReader } from '../storage/index.ts'

/** Blocks read from a store at a time while a list is sent. */
const BLOCKS_PER_PAGE = 64

/** Part of a list: `limit` 0 stands for no limit. */
export interface ListRange {
  readonly limit: number
  readonly offset: number
}

/** Reads a range page by page; after the first page by position, which costs the same anywhere. */
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
    // In a damaged store a page may lead back to one before it, and the list would have no end.
    if (last.created <= from.after) {
      throw new StoreError('STORE_DAMAGED', 'the items of a database are not in order')
    }
    yield page
    from = { after: last.created, offset: 0 }
    left -= page.length
  }
}

/** Every page with `map` applied to its rows. */
export async function* mapPages<Row, Value>(
  pages: AsyncIterable<Row[]>,
  map: (row: Row) => Value,
): AsyncGenerator<Value[]> {
  for await (const page of pages) yield page.map(map)
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
