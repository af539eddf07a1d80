import { setImmediate } from 'node:timers/promises'
import { packPosition, positionText } from '../../chain/index.ts'
import type { StoredRevision, StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'

/** Which part of a history to list; `limit` 0 stands for no limit. */
export interface HistoryRange {
  readonly limit: number
  readonly newestFirst: boolean
  /** Only what comes behind this packed position, in that order; null from the first one. */
  readonly after: number | null
}

/** Revisions read from the store at a time while a history is sent. */
const REVISIONS_PER_PAGE = 256

/** What items were: every revision that an entry left, and the item as of a height. */
export class ItemHistory {
  readonly #store: StoreReader

  constructor(store: StoreReader) {
    this.#store = store
  }

  /**
   * The revisions of an item page by page as the reader takes them: one more than `limit` when there
   * are more, so that he knows. An item that was deleted has its history as long as its database is there.
   * Errors, before the first page: DATABASE_NOT_FOUND, ITEM_NOT_FOUND when it was never there.
   */
  async list(
    db: string,
    id: string,
    range: HistoryRange,
  ): Promise<AsyncGenerator<StoredRevision[]>> {
    const database = await this.#database(db)
    const [any] = await this.#store.revisions(database, id, { newestFirst: true, limit: 1 })
    if (any === undefined) {
      throw new LedgerError('ITEM_NOT_FOUND', `there never was an item ${id} in ${db}`)
    }
    return this.#pages(database, id, range)
  }

  /**
   * The item as it was when the block at `height` was the last one, or null when it was not there:
   * not yet, not any more, or in a database that had this name before and was deleted.
   * Errors: DATABASE_NOT_FOUND, HEIGHT_UNKNOWN for a block that is not there yet, REVISION_ERASED.
   */
  async itemAt(
    db: string,
    id: string,
    height: number,
  ): Promise<{ revision: number; text: string } | null> {
    const database = await this.#database(db)
    const head = await this.#store.head(this.#store.serverId)
    if (head === null || height > head.height) {
      throw new LedgerError('HEIGHT_UNKNOWN', `there is no block ${height} yet`)
    }
    const after = packPosition(height + 1, 0)
    const [last] = await this.#store.revisions(database, id, {
      newestFirst: true,
      after,
      limit: 1,
    })
    if (last === undefined || last.kind === 'delete_item') return null
    const { position, text } = last
    if (text !== null) return { revision: position, text }
    throw new LedgerError(
      'REVISION_ERASED',
      `item ${id} of ${db} was as of ${positionText(position)} then, and that was erased`,
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
      // A page may take long to read and be short to send: let others have a turn.
      await setImmediate()
    }
  }

  async #database(db: string): Promise<number> {
    const database = await this.#store.database(db)
    if (database !== null) return database.created
    throw new LedgerError('DATABASE_NOT_FOUND', `there is no database ${db}`)
  }
}

/** A revision as `…/history` shows it, as JSON text. */
export function revisionJson({ position, timestamp, kind, text }: StoredRevision): string {
  const erased = kind === 'delete_item' ? '' : ',"erased":true'
  const item = text === null ? erased : `,"item":${text}`
  return `{"position":"${positionText(position)}","timestamp":${timestamp},"method":"${kind}"${item}}`
}
