import { turn } from '../../base/turn.ts'
import { positionText } from '../../chain/index.ts'
import type { StoredRevision, StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { type AsOf, readPages, requireDatabase } from './pages.ts'

/** Selects a page of a history. `limit` 0 means no limit. */
export interface HistoryRange {
  readonly limit: number
  readonly newestFirst: boolean
  /** Packed position of the last revision of the previous page; null for the first page. */
  readonly after: number | null
}

/** Number of revisions that are read from the store at once. */
const REVISIONS_PER_PAGE = 256

export class ItemHistory {
  readonly #store: StoreReader

  constructor(store: StoreReader) {
    this.#store = store
  }

  /**
   * Returns up to `limit` + 1 revisions of an item, page by page. The additional revision shows the caller that there
   * are more. A deleted item keeps its history as long as its database exists.
   * Errors, before the first page: DATABASE_NOT_FOUND, ITEM_NOT_FOUND if the item never existed.
   */
  async list(
    db: string,
    id: string,
    range: HistoryRange,
  ): Promise<AsyncGenerator<StoredRevision[]>> {
    const database = await requireDatabase(this.#store, db)
    const [any] = await this.#store.revisions(database, id, { newestFirst: true, limit: 1 })
    if (any === undefined) {
      throw new LedgerError('ITEM_NOT_FOUND', `there never was an item ${id} in ${db}`)
    }
    const { limit, newestFirst } = range
    const oneMore = limit === 0 ? 0 : limit + 1
    let { after } = range
    return readPages<StoredRevision>(oneMore, REVISIONS_PER_PAGE, async (rows) => {
      const from = after === null ? {} : { after }
      // Many clients may ask for long revisions at once.
      await turn()
      const page = await this.#store.revisions(database, id, { newestFirst, limit: rows, ...from })
      after = page.at(-1)?.position ?? after
      return page
    })
  }

  /**
   * Returns the item as of a block, also of a database that was deleted later. Returns null if the item did not exist.
   * Errors: DATABASE_NOT_FOUND if no database ever had this name, REVISION_ERASED.
   */
  async itemAt(
    db: string,
    id: string,
    { before }: AsOf,
  ): Promise<{ revision: number; text: string } | null> {
    const database = await this.#store.databaseBefore(db, before)
    if (database === null) {
      const former = await this.#store.formerDatabases(db)
      if (former.length === 0) await requireDatabase(this.#store, db)
      return null
    }
    const range = { newestFirst: true, after: before, limit: 1 }
    // Many clients may ask for long revisions at once.
    await turn()
    const [last] = await this.#store.revisions(database.created, id, range)
    if (last === undefined || last.kind === 'delete_item') return null
    const { position, text } = last
    if (text !== null) return { revision: position, text }
    const at = positionText(position)
    throw new LedgerError('REVISION_ERASED', `revision ${at} of item ${id} of ${db} was erased`)
  }
}
