import type { Filter } from '../filter/index.ts'
import {
  type FoundItem,
  openStoreReader,
  type StoredItem,
  type StoreReader,
} from '../storage/index.ts'
import { searchPages } from './queries.ts'
import { blockPages, pagesOf } from './reads.ts'

/** Items read from the store at a time. */
const ITEMS_PER_PAGE = 256

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
    yield* pagesOf(all, ITEMS_PER_PAGE, -1, (from) => this.#store.listItems(database.created, from))
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
