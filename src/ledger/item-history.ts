import { setImmediate } from 'node:timers/promises'
import { packPosition, positionText } from '../chain/index.ts'
import type { StoredRevision, StoreReader } from '../storage/index.ts'
import { LedgerError } from './errors.ts'
import { requireDatabase } from './reads.ts'

/** Part of a history; `limit` 0 means no limit. */
export interface HistoryRange {
  readonly limit: number
  readonly newestFirst: boolean
  /** The packed position after which the range starts, in its order; null for the whole history. */
  readonly after: number | null
}

/** Revisions read at a time while a history is sent. */
const REVISIONS_PER_PAGE = 256

/** The revisions of items. */
export class ItemHistory {
  readonly #store: StoreReader

  constructor(store: StoreReader) {
    this.#store = store
  }

  /**
   * The revisions of an item, page by page: one more than `limit` if there are more. A deleted item keeps
   * its history as long as its database exists.
   * Errors, before the first page: DATABASE_NOT_FOUND, ITEM_NOT_FOUND if the item never existed.
   */
  async list(
    db: string,
    id: string,
    range: HistoryRange,
  ): Promise<AsyncGenerator<StoredRevision[]>> {
    const database = await requireDatabase(this.#store, db)
    const [any] = await this.#store.revisions(database, id, { newestFirst: true, limit: 1 })
    if (any !== undefined) return this.#pages(database, id, range)
    throw new LedgerError('ITEM_NOT_FOUND', `there never was an item ${id} in ${db}`)
  }

  /**
   * The item at the time when the block at `height` was the last one; null if it did not exist then, or
   * belonged to an earlier database of this name.
   * Errors: DATABASE_NOT_FOUND, HEIGHT_UNKNOWN for a future block, REVISION_ERASED.
   */
  async itemAt(
    db: string,
    id: string,
    height: number,
  ): Promise<{ revision: number; text: string } | null> {
    const database = await requireDatabase(this.#store, db)
    const head = await this.#store.head(this.#store.serverId)
    if (head === null || height > head.height) {
      throw new LedgerError('HEIGHT_UNKNOWN', `there is no block ${height} yet`)
    }
    const range = { newestFirst: true, after: packPosition(height + 1, 0), limit: 1 }
    const [last] = await this.#store.revisions(database, id, range)
    if (last === undefined || last.kind === 'delete_item') return null
    const { position, text } = last
    if (text !== null) return { revision: position, text }
    const at = positionText(position)
    throw new LedgerError(
      'REVISION_ERASED',
      `item ${id} of ${db} was as of ${at} then, and that was erased`,
    )
  }

  async *#pages(
    database: number,
    id: string,
    { limit, newestFirst, after: start }: HistoryRange,
  ): AsyncGenerator<StoredRevision[]> {
    let left = limit === 0 ? Number.POSITIVE_INFINITY : limit + 1
    let after = start
    while (left > 0) {
      const page = await this.#store.revisions(database, id, {
        newestFirst,
        limit: Math.min(left, REVISIONS_PER_PAGE),
        ...(after === null ? {} : { after }),
      })
      const last = page.at(-1)
      if (last === undefined) return
      yield page
      after = last.position
      left -= page.length
      // A page may take long to read and be short to send: let the event loop serve others.
      await setImmediate()
    }
  }
}
