import { setImmediate } from 'node:timers/promises'
import { canonicalJson } from '../../base/canonical-json.ts'
import { turn } from '../../base/turn.ts'
import type { Block } from '../../chain/index.ts'
import { type Fields, type Filter, projected } from '../../filter/index.ts'
import { type FoundItem, StoreError, type StoreReader, storedJson } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'

const BLOCKS_PER_PAGE = 64

/** Selects a page of a list. `limit` 0 means no limit. */
export interface ListRange {
  readonly limit: number
  readonly offset: number
}

export const ALL: ListRange = { limit: 0, offset: 0 }

export interface ItemQuery {
  readonly filter: Filter
  /** Packed position of the item after which the search starts; null starts at the first item. */
  readonly after: number | null
  /** Whether to read whole items instead of only their ids. */
  readonly docs: boolean
  /** Interrupts the search. */
  readonly signal?: AbortSignal
}

/** The items found. `index` is the path of the index that the search used, or null if the search scanned all items. */
export interface QueryResult {
  readonly index: string | null
  readonly pages: AsyncIterable<FoundItem[]>
}

/** A past state of the databases. */
export interface AsOf {
  /** Height of the last block that the state includes. */
  readonly height: number
  /** Packed position of the first entry that the state does not include. */
  readonly before: number
}

/**
 * Returns the packed position of the entry that created `db`, now or as of a block.
 * Errors: DATABASE_NOT_FOUND.
 */
export async function requireDatabase(
  store: StoreReader,
  db: string,
  asOf: AsOf | null = null,
): Promise<number> {
  const database = await (asOf === null
    ? store.database(db)
    : store.databaseBefore(db, asOf.before))
  if (database !== null) return database.created
  const message =
    asOf === null
      ? `there is no database ${db}`
      : `there was no database ${db} at height ${asOf.height}`
  throw new LedgerError('DATABASE_NOT_FOUND', message)
}

/**
 * Reads up to `limit` rows, or all rows if `limit` is 0, page by page. `read` returns the next rows, at most as many as
 * its argument says. The caller may empty a page, so that no row stays in memory during a long reply. Yields to the
 * event loop between two pages.
 */
export async function* readPages<Row>(
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
  return readPages<Row>(limit, pageRows, async (rows) => {
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
  return readPages<Block>(range.limit, BLOCKS_PER_PAGE, async (rows) => {
    const blocks = await store.blocks(store.serverId, next, rows)
    next += blocks.length
    return blocks
  })
}

/**
 * Returns the height of the first block whose last entry was recorded at `timeMs` or later, or the height after the last
 * block. Timestamps never decrease along the chain.
 */
export async function findHeight(store: StoreReader, timeMs: number): Promise<number> {
  let [low, high] = [0, ((await store.head(store.serverId))?.height ?? -1) + 1]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (((await store.blockTime(middle)) ?? Number.POSITIVE_INFINITY) < timeMs) low = middle + 1
    else high = middle
  }
  return low
}

/** Throws FILTER_AFTER_ORDER if the filter has an order. */
export function requireCreationOrder(order: Filter['order']): void {
  if (order.length === 0) return
  throw new LedgerError(
    'FILTER_AFTER_ORDER',
    '`after` and `cursor` require the order of creation: remove `order`, or use `offset`',
  )
}

/**
 * Finds items of the database that was created at the packed position `database`, page by page. Reads the first page
 * before the promise resolves, so that errors occur before the reply starts.
 * Errors: StoreError (SEARCH_TOO_LARGE, SEARCH_INTERRUPTED); FILTER_AFTER_ORDER.
 */
export async function searchPages(
  store: StoreReader,
  database: number,
  { filter, after, docs, signal }: ItemQuery,
  asOf: AsOf | null = null,
): Promise<QueryResult> {
  const { where, order, offset, limit, fields } = filter
  if (after !== null) requireCreationOrder(order)
  const search = { where, order, after, offset: offset ?? 0, limit, text: docs }
  const { index, pieces } = await store.search(database, search, asOf?.before)
  return { index, pages: await withFirst(piecePages(pieces, docs ? fields : null, signal)) }
}

function reduce(items: FoundItem[], fields: Fields): void {
  for (const item of items.splice(0)) {
    const text = canonicalJson(projected(storedJson(item.text ?? '{}'), fields))
    items.push({ ...item, text })
  }
}

/** Yields the pieces that are not empty. Reduces each item to `fields` unless `fields` is null. */
async function* piecePages(
  pieces: AsyncIterable<FoundItem[]>,
  fields: Fields | null,
  signal: AbortSignal | undefined,
): AsyncGenerator<FoundItem[], void> {
  for await (const piece of pieces) {
    if (signal?.aborted === true)
      throw new StoreError('SEARCH_INTERRUPTED', 'the client has disconnected')
    if (piece.length > 0) {
      if (fields !== null) reduce(piece, fields)
      yield piece
      // A streamed reply has its turn before each page.
      await setImmediate()
    } else await turn()
  }
}

/**
 * Returns all pages. Reads the first page before the promise resolves, so that its errors occur before the reply
 * starts.
 */
export async function withFirst<Page>(
  pages: AsyncGenerator<Page, void>,
): Promise<AsyncGenerator<Page>> {
  const first = await pages.next()
  return (async function* () {
    if (first.done === true) return
    yield first.value
    yield* pages
  })()
}
