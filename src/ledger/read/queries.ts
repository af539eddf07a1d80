import { setImmediate } from 'node:timers/promises'
import { canonicalJson } from '../../base/canonical-json.ts'
import type { Clock } from '../../base/clock.ts'
import { turn } from '../../base/turn.ts'
import { type Fields, type Filter, pathIn, projected, type Where } from '../../filter/index.ts'
import {
  type FoundItem,
  type IndexOutcome,
  type StoredIndex,
  StoreError,
  type StoreReader,
  storedJson,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { Aggregation, type AggregationQuery, type Group } from './aggregation.ts'

/** An index on the members at `path` of the items of `db`. */
export interface IndexName {
  readonly db: string
  readonly path: string
}

/** Writes index changes; implemented by `LedgerWriter`. */
export interface IndexWriter {
  changeIndex(action: 'add' | 'remove', name: IndexName): Promise<IndexOutcome>
}

export interface ItemQuery {
  readonly filter: Filter
  /** Packed position of the item after which the search starts; null starts at the first item. */
  readonly after: number | null
  /** Whether to read whole items instead of only their ids. */
  readonly docs: boolean
}

/** The items found. `index` is the path of the index that the search used, or null if the search scanned all items. */
export interface QueryResult {
  readonly index: string | null
  readonly pages: AsyncIterable<FoundItem[]>
}

export interface AggregationResult {
  readonly groups: readonly Group[]
  /** Height of the newest block when the aggregation started. */
  readonly height: number
  /** True if no block was added during the aggregation; then the result is exact for `height`. */
  readonly consistent: boolean
}

/** Maximum milliseconds of a count or an aggregation, less than the usual timeouts of clients and proxies. */
export const COUNT_MS_MAX = 20_000
/**
 * Number of characters of items after which an aggregation yields to the event loop. They take about two milliseconds.
 */
const AGGREGATED_CHARACTERS = 131_072
/** Maximum concurrent aggregations. Each can use some megabytes of memory. */
export const AGGREGATIONS_MAX = 8

/** Searches databases by filters, counts and aggregates items, and manages the indexes. */
export class LedgerQueries {
  readonly #store: StoreReader
  readonly #writer: IndexWriter
  readonly #clock: Clock
  #aggregations = 0

  constructor(store: StoreReader, writer: IndexWriter, clock: Clock) {
    this.#store = store
    this.#writer = writer
    this.#clock = clock
  }

  /** See `searchPages`. */
  find(database: number, query: ItemQuery): Promise<QueryResult> {
    return searchPages(this.#store, database, query)
  }

  /**
   * Counts the items that match `where` in each of `databases`, given by the packed positions of their creation.
   * `signal` interrupts the count. Errors: StoreError (SEARCH_TOO_LARGE, SEARCH_INTERRUPTED).
   */
  async count(
    databases: readonly number[],
    where: Where | null,
    signal: AbortSignal,
  ): Promise<number[]> {
    const until = this.#clock.now() + COUNT_MS_MAX
    const counts: number[] = []
    for (const database of databases) {
      const { pieces } = await this.#store.count(database, where)
      let count = 0
      for await (const piece of this.#interruptible(pieces, until, signal)) count += piece
      counts.push(count)
    }
    return counts
  }

  /**
   * Aggregates the items of a database. `findDatabase` returns the packed position of the entry that created the
   * database. `signal` interrupts the aggregation.
   * Errors: those of `findDatabase`; GROUPS_TOO_MANY, SUM_TOO_LARGE, AGGREGATIONS_BUSY; StoreError (SEARCH_TOO_LARGE,
   * SEARCH_INTERRUPTED).
   */
  async aggregate(
    findDatabase: () => Promise<number>,
    query: AggregationQuery,
    signal: AbortSignal,
  ): Promise<AggregationResult> {
    if (this.#aggregations === AGGREGATIONS_MAX) {
      throw new LedgerError(
        'AGGREGATIONS_BUSY',
        `${AGGREGATIONS_MAX} aggregations are running; repeat the request later`,
      )
    }
    this.#aggregations += 1
    try {
      return await this.#aggregate(findDatabase, query, signal)
    } finally {
      this.#aggregations -= 1
    }
  }

  async #aggregate(
    findDatabase: () => Promise<number>,
    query: AggregationQuery,
    signal: AbortSignal,
  ): Promise<AggregationResult> {
    const until = this.#clock.now() + COUNT_MS_MAX
    // Read before the database, so that `consistent` is false if the database is deleted after this height.
    const height = await this.#height()
    const database = await findDatabase()
    const aggregation = new Aggregation(query)
    const search = { order: [], after: null, offset: 0, limit: null, text: true }
    const { pieces } = await this.#store.search(database, { where: query.where, ...search })
    for await (const items of this.#interruptible(pieces, until, signal)) {
      let characters = 0
      for (const { text } of items) {
        aggregation.add(storedJson(text ?? '{}'))
        characters += text?.length ?? 0
        if (characters < AGGREGATED_CHARACTERS) continue
        characters = 0
        await turn()
      }
    }
    const consistent = (await this.#height()) === height
    return { groups: aggregation.result(), height, consistent }
  }

  async #height(): Promise<number> {
    return (await this.#store.head(this.#store.serverId))?.height ?? -1
  }

  /**
   * Yields `pieces`, and lets the event loop serve other requests between two pieces.
   * Errors: SEARCH_TOO_LARGE after the time `until`, SEARCH_INTERRUPTED after `signal` is aborted.
   */
  async *#interruptible<Piece>(
    pieces: AsyncIterable<Piece>,
    until: number,
    signal: AbortSignal,
  ): AsyncGenerator<Piece> {
    let isFirst = true
    for await (const piece of pieces) {
      if (!isFirst) await turn()
      isFirst = false
      if (signal.aborted) {
        throw new StoreError('SEARCH_INTERRUPTED', 'the client has disconnected')
      }
      if (this.#clock.now() > until) {
        const seconds = COUNT_MS_MAX / 1_000
        throw new StoreError(
          'SEARCH_TOO_LARGE',
          `counting took more than ${seconds} s: select fewer items, or declare an index for the filter`,
        )
      }
      yield piece
    }
  }

  /** Lists the declared indexes, in the order of their databases. */
  indexes(): Promise<StoredIndex[]> {
    return this.#store.indexes()
  }

  /** Declares an index. Errors: DATABASE_NOT_FOUND, INDEX_PATH_INVALID, INDEX_EXISTS, INDEXES_TOO_MANY. */
  addIndex(name: IndexName): Promise<void> {
    return this.#change('add', name)
  }

  /** Removes an index. Errors: DATABASE_NOT_FOUND, INDEX_PATH_INVALID, INDEX_NOT_FOUND. */
  removeIndex(name: IndexName): Promise<void> {
    return this.#change('remove', name)
  }

  async #change(action: 'add' | 'remove', { db, path }: IndexName): Promise<void> {
    if (pathIn(path) === null) {
      throw new LedgerError(
        'INDEX_PATH_INVALID',
        'a path must be 1 to 8 member names, separated by dots',
      )
    }
    const outcome = await this.#writer.changeIndex(action, { db, path })
    switch (outcome) {
      case 'done':
        return
      case 'exists':
        throw new LedgerError('INDEX_EXISTS', `there is already an index on ${path} of ${db}`)
      case 'missing':
        throw new LedgerError('INDEX_NOT_FOUND', `there is no index on ${path} of ${db}`)
      case 'no-database':
        throw new LedgerError('DATABASE_NOT_FOUND', `there is no database ${db}`)
      case 'too-many':
        throw new LedgerError('INDEXES_TOO_MANY', `${db} already has the maximum number of indexes`)
    }
  }
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
 * Errors: StoreError (SEARCH_TOO_LARGE); FILTER_AFTER_ORDER.
 */
export async function searchPages(
  store: StoreReader,
  database: number,
  { filter, after, docs }: ItemQuery,
): Promise<QueryResult> {
  const { where, order, offset, limit, fields } = filter
  if (after !== null) requireCreationOrder(order)
  const search = { where, order, after, offset: offset ?? 0, limit, text: docs }
  const { index, pieces } = await store.search(database, search)
  return { index, pages: await withFirst(pagesOf(pieces, docs ? fields : null)) }
}

/** Yields the pieces that are not empty. Reduces each item to `fields` unless `fields` is null. */
async function* pagesOf(
  pieces: AsyncIterable<FoundItem[]>,
  fields: Fields | null,
): AsyncGenerator<FoundItem[], void> {
  const reduced = (text: string | null, to: Fields) =>
    canonicalJson(projected(storedJson(text ?? '{}'), to))
  for await (const piece of pieces) {
    if (piece.length > 0) {
      yield fields === null
        ? piece
        : piece.splice(0).map((item) => ({ ...item, text: reduced(item.text, fields) }))
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
