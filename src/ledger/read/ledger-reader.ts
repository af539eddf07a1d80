import type { Filter } from '../../filter/index.ts'
import {
  type FoundItem,
  openStoreReader,
  type RevisionRange,
  type StoredItem,
  type StoredRevision,
  type StoreLocation,
  type StoreReader,
} from '../../storage/index.ts'
import { type EntrySearch, type FoundEntries, searchEntries } from './entry-search.ts'
import { ALL, blockPages, itemPages, requireDatabase, searchPages } from './pages.ts'

const ITEMS_PER_PAGE = 256

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

  /** Whether `db` has an item `id`. Does not read the item, which can have 10 MB. */
  async hasItem(db: string, id: string): Promise<boolean> {
    return (await this.#store.existingIds(db, [id])).length > 0
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
    yield* itemPages(ALL, ITEMS_PER_PAGE, -1, (from) =>
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

  /** Lists revisions of an item of `db`, as `StoreReader.revisions` does. */
  async revisions(db: string, id: string, range: RevisionRange): Promise<StoredRevision[]> {
    const database = await this.#store.database(db)
    return database === null ? [] : this.#store.revisions(database.created, id, range)
  }

  /** Lists the blocks of the chain from `height` on, at most `limit` or, for 0, all, page by page. */
  blocks(height: number, limit = 0) {
    return blockPages(this.#store, { offset: height, limit })
  }

  /** See `searchEntries`. */
  searchEntries(search: EntrySearch): AsyncGenerator<FoundEntries> {
    return searchEntries(this.#store, search)
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
