import { packPosition, positionText } from '../../chain/index.ts'
import type { StoredRevision, StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import { readPages, requireDatabase } from './pages.ts'

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
      const page = await this.#store.revisions(database, id, { newestFirst, limit: rows, ...from })
      after = page.at(-1)?.position ?? after
      return page
    })
  }

  /**
   * Returns the item as of the block at `height`. Returns null if the item did not exist at that height, or belonged to
   * an earlier database of this name.
   * Errors: DATABASE_NOT_FOUND, HEIGHT_UNKNOWN for a future block, REVISION_ERASED.
   */
  async itemAt(
    db: string,
    id: string,
    height: number,
  ): Promise<{ revision: number; text: string } | null> {
    // Reads the head first. If the database still exists after that, no block up to this head has deleted it, so its
    // revisions up to `height` are valid.
    const head = await this.#store.head(this.#store.serverId)
    const database = await requireDatabase(this.#store, db)
    if (head === null || height > head.height) {
      throw new LedgerError('HEIGHT_UNKNOWN', `there is no block ${height} yet`)
    }
    const range = { newestFirst: true, after: packPosition(height + 1, 0), limit: 1 }
    const [last] = await this.#store.revisions(database, id, range)
    if (last === undefined || last.kind === 'delete_item') return null
    const { position, text } = last
    if (text !== null) return { revision: position, text }
    const at = positionText(position)
    throw new LedgerError('REVISION_ERASED', `revision ${at} of item ${id} of ${db} was erased`)
  }
}
