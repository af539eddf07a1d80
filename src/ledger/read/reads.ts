import type { Clock } from '../../base/clock.ts'
import { isoTime } from '../../base/iso-time.ts'
import { turn } from '../../base/turn.ts'
import { packPosition } from '../../chain/index.ts'
import type { Where } from '../../filter/index.ts'
import {
  type FoundItem,
  type StoredDatabase,
  type StoredIndex,
  type StoredItem,
  StoreError,
  type StoreReader,
  storedJson,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { Aggregation, type AggregationQuery, type Group } from './aggregation.ts'
import { ChainCount, type ChainSize } from './chain-count.ts'
import {
  type AsOf,
  findHeight,
  type ItemQuery,
  itemPages,
  type ListRange,
  type QueryResult,
  requireDatabase,
  searchPages,
  withFirst,
} from './pages.ts'

export interface ItemListRange extends ListRange {
  /** Only items that were created after the item with this id, or after this packed position. */
  readonly after: string | number | null
}

/** An item of a list: its id, and the packed position of its creation. */
export type ListedId = Pick<StoredItem, 'id' | 'created'>

/** Maximum ids or items per page of a list. */
const IDS_PER_PAGE = 1_000
const ITEMS_PER_PAGE = 256

interface AggregationResult {
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

/** Reads the databases and items of the node, in their current state, and its chain. */
export class LedgerReads {
  readonly #store: StoreReader
  readonly #clock: Clock
  readonly #chain: ChainCount
  #aggregations = 0

  constructor(store: StoreReader, clock: Clock) {
    this.#store = store
    this.#clock = clock
    this.#chain = new ChainCount(store)
  }

  chainSize(): Promise<ChainSize> {
    return this.#chain.size()
  }

  /** Lists the names of all databases, in creation order. */
  async databases(asOf: AsOf | null = null): Promise<string[]> {
    return (await this.storedDatabases(asOf)).map(({ name }) => name)
  }

  /** Lists all databases, in creation order, each with the packed position of the entry that created it. */
  storedDatabases(asOf: AsOf | null = null): Promise<StoredDatabase[]> {
    return asOf === null ? this.#store.databases() : this.#store.databasesBefore(asOf.before)
  }

  /** Returns the state after the newest block. */
  async asOfHead(): Promise<AsOf> {
    return stateAfter(await this.#height())
  }

  /** Returns the state after the block at `height`. Errors: HEIGHT_UNKNOWN. */
  async asOfHeight(height: number): Promise<AsOf> {
    const head = await this.#height()
    if (height <= head) return stateAfter(height)
    throw new LedgerError('HEIGHT_UNKNOWN', `there is no block ${height} yet`)
  }

  /**
   * Returns the state after the last block whose entries all were recorded at `timeMs` or before.
   * Errors: HEIGHT_UNKNOWN for a time before the first block, or in the future.
   */
  async asOfTime(timeMs: number): Promise<AsOf> {
    const time = isoTime(timeMs)
    if (timeMs > this.#clock.now()) {
      throw new LedgerError('HEIGHT_UNKNOWN', `${time} is in the future`)
    }
    const height = (await findHeight(this.#store, timeMs + 1)) - 1
    if (height >= 0) return stateAfter(height)
    throw new LedgerError('HEIGHT_UNKNOWN', `the first block was recorded after ${time}`)
  }

  /** Lists the declared indexes, in the order of their databases. */
  indexes(): Promise<StoredIndex[]> {
    return this.#store.indexes()
  }

  /** Returns the item, or null if it does not exist. Errors: DATABASE_NOT_FOUND. */
  async item(db: string, id: string): Promise<StoredItem | null> {
    const item = await this.#store.item(db, id)
    if (item === null) await requireDatabase(this.#store, db)
    return item
  }

  /**
   * Lists the ids of a database in creation order, page by page.
   * Errors, before the first page: DATABASE_NOT_FOUND, ITEM_NOT_FOUND for an unknown `after`.
   */
  async ids(db: string, range: ItemListRange): Promise<AsyncIterable<ListedId[]>> {
    const { database, after } = await this.#requireStart(db, range.after)
    return withFirst(
      itemPages(range, IDS_PER_PAGE, after, (from) => this.#store.listIds(database, from)),
    )
  }

  /** Lists the items of a database as canonical texts. Order and errors: as for `ids`. */
  async items(db: string, range: ItemListRange): Promise<AsyncIterable<StoredItem[]>> {
    const { database, after } = await this.#requireStart(db, range.after)
    return withFirst(
      itemPages(range, ITEMS_PER_PAGE, after, (from) => this.#store.listItems(database, from)),
    )
  }

  /** Finds items by a filter. Errors: as for `ids` and `searchPages`. */
  async find(
    db: string,
    query: Omit<ItemQuery, 'after'> & Pick<ItemListRange, 'after'>,
    asOf: AsOf | null = null,
  ): Promise<QueryResult> {
    const { database, after } =
      asOf === null
        ? await this.#requireStart(db, query.after)
        : await this.#requireFormerStart(db, query.after, asOf)
    const start = after === -1 ? null : after
    return searchPages(this.#store, database, { ...query, after: start }, asOf)
  }

  async #requireStart(db: string, after: ItemListRange['after']) {
    const item = typeof after === 'string' ? await this.item(db, after) : null
    const database = await requireDatabase(this.#store, db)
    if (typeof after !== 'string') return { database, after: after ?? -1 }
    // An item that was created before the database belongs to an earlier database of this name.
    if (item !== null && item.created > database) return { database, after: item.created }
    throw noSuchStart(db, after)
  }

  async #requireFormerStart(db: string, after: ItemListRange['after'], asOf: AsOf) {
    const database = await requireDatabase(this.#store, db, asOf)
    if (typeof after !== 'string') return { database, after: after ?? -1 }
    const created = await this.#store.createdBefore(database, after, asOf.before)
    if (created === null) throw noSuchStart(db, after)
    return { database, after: created }
  }

  /**
   * Counts the items that match `where`. `signal` interrupts the count.
   * Errors: DATABASE_NOT_FOUND; StoreError (SEARCH_TOO_LARGE, SEARCH_INTERRUPTED).
   */
  async count(
    db: string,
    where: Where | null,
    signal: AbortSignal,
    asOf: AsOf | null = null,
  ): Promise<number> {
    const database = await requireDatabase(this.#store, db, asOf)
    const [count = 0] = await this.#count([database], where, signal, asOf)
    return count
  }

  /**
   * Counts the items of each database for whose name `isSelected` returns true, in creation order. `signal` interrupts
   * the count. Errors: StoreError (SEARCH_TOO_LARGE, SEARCH_INTERRUPTED).
   */
  async countEach(
    isSelected: (db: string) => boolean,
    signal: AbortSignal,
    asOf: AsOf | null = null,
  ): Promise<(StoredDatabase & { readonly count: number })[]> {
    const databases = (await this.storedDatabases(asOf)).filter(({ name }) => isSelected(name))
    const positions = databases.map(({ created }) => created)
    const counts = await this.#count(positions, null, signal, asOf)
    return databases.map((database, at) => ({ ...database, count: counts[at] ?? 0 }))
  }

  /** Counts the items in each of `databases`, given by the packed positions of their creation. */
  async #count(
    databases: readonly number[],
    where: Where | null,
    signal: AbortSignal,
    asOf: AsOf | null,
  ): Promise<number[]> {
    const until = this.#clock.now() + COUNT_MS_MAX
    const counts = databases.map(() => 0)
    const pieces = this.#countPieces(databases, where, asOf)
    for await (const { at, count } of this.#interruptible(pieces, until, signal)) {
      counts[at] = (counts[at] ?? 0) + count
    }
    return counts
  }

  async *#countPieces(databases: readonly number[], where: Where | null, asOf: AsOf | null) {
    for (const [at, database] of databases.entries()) {
      const { pieces } = await this.#store.count(database, where, asOf?.before)
      for await (const count of pieces) yield { at, count }
    }
  }

  /**
   * Aggregates the items of a database. `signal` interrupts the aggregation.
   * Errors: DATABASE_NOT_FOUND, GROUPS_TOO_MANY, SUM_TOO_LARGE, AGGREGATIONS_BUSY; StoreError (SEARCH_TOO_LARGE,
   * SEARCH_INTERRUPTED).
   */
  async aggregate(
    db: string,
    query: AggregationQuery,
    signal: AbortSignal,
    asOf: AsOf | null = null,
  ): Promise<AggregationResult> {
    // Read before the database, so that `consistent` is false if the database is deleted after this height.
    const height = asOf?.height ?? (await this.#height())
    const database = await requireDatabase(this.#store, db, asOf)
    const search = { order: [], after: null, offset: 0, limit: null, text: true }
    const { pieces } = await this.#store.search(
      database,
      { where: query.where, ...search },
      asOf?.before,
    )
    const groups = await this.aggregateItems(query, pieces, signal)
    const consistent = asOf !== null || (await this.#height()) === height
    return { groups, height, consistent }
  }

  /** Aggregates the items in `pieces`, which match the query. Errors: as for `aggregate`. */
  async aggregateItems(
    query: AggregationQuery,
    pieces: AsyncIterable<readonly Pick<FoundItem, 'text'>[]>,
    signal: AbortSignal,
  ): Promise<Group[]> {
    if (this.#aggregations === AGGREGATIONS_MAX) {
      throw new LedgerError(
        'AGGREGATIONS_BUSY',
        `${AGGREGATIONS_MAX} aggregations are running; repeat the request later`,
      )
    }
    this.#aggregations += 1
    try {
      return await this.#aggregate(query, pieces, signal)
    } finally {
      this.#aggregations -= 1
    }
  }

  async #aggregate(
    query: AggregationQuery,
    pieces: AsyncIterable<readonly Pick<FoundItem, 'text'>[]>,
    signal: AbortSignal,
  ): Promise<Group[]> {
    const until = this.#clock.now() + COUNT_MS_MAX
    const aggregation = new Aggregation(query)
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
    return aggregation.result()
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
}

function stateAfter(height: number): AsOf {
  return { height, before: packPosition(height + 1, 0) }
}

function noSuchStart(db: string, after: string): LedgerError {
  const message = `there is no item ${after} in ${db}, so no list can start after it`
  return new LedgerError('ITEM_NOT_FOUND', message)
}
