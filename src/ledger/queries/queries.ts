import { setImmediate as nextTurn } from 'node:timers/promises'
import { canonicalJson } from '../../base/canonical-json.ts'
import { type Fields, type Filter, pathIn, projected } from '../../filter/index.ts'
import {
  type FoundItem,
  type IndexOutcome,
  type ItemSearch,
  type StoredIndex,
  type StoreReader,
  storedJson,
} from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'

/** A declared index: the members at `path` of the items of `db`. */
export interface IndexName {
  readonly db: string
  readonly path: string
}

/** Declares and removes indexes; done by whoever writes the store. */
export interface IndexWriter {
  changeIndex(action: 'add' | 'remove', name: IndexName): Promise<IndexOutcome>
}

/** Which items of a database are wanted. */
export interface ItemQuery {
  readonly filter: Filter
  /** Only what was created after the item at this packed position; null for all. */
  readonly after: number | null
  /** Whether the items are wanted, or their ids only. */
  readonly docs: boolean
}

/** Items that were found; `index` is the path of the index that was used, null for a scan. */
export interface Found {
  readonly index: string | null
  readonly pages: AsyncIterable<FoundItem[]>
}

/** What the ledger database finds by filters, and the indexes that help it. */
export class LedgerQueries {
  readonly #store: StoreReader
  readonly #writer: IndexWriter

  constructor(store: StoreReader, writer: IndexWriter) {
    this.#store = store
    this.#writer = writer
  }

  /** See `searchPages`. */
  find(database: number, query: ItemQuery): Promise<Found> {
    return searchPages(this.#store, database, query)
  }

  /** The declared indexes, in the order of their databases. */
  indexes(): Promise<StoredIndex[]> {
    return this.#store.indexes()
  }

  /** Errors: DATABASE_NOT_FOUND, INDEX_PATH_INVALID, INDEX_EXISTS, INDEXES_TOO_MANY. */
  async addIndex(name: IndexName): Promise<void> {
    await this.#change('add', name)
  }

  /** Errors: DATABASE_NOT_FOUND, INDEX_PATH_INVALID, INDEX_NOT_FOUND. */
  async removeIndex(name: IndexName): Promise<void> {
    await this.#change('remove', name)
  }

  async #change(action: 'add' | 'remove', { db, path }: IndexName): Promise<void> {
    if (pathIn(path) === null) {
      throw new LedgerError('INDEX_PATH_INVALID', 'a path is up to 8 names with dots between them')
    }
    const outcome = await this.#writer.changeIndex(action, { db, path })
    switch (outcome) {
      case 'done':
        return
      case 'exists':
        throw new LedgerError('INDEX_EXISTS', `${path} of ${db} has an index already`)
      case 'missing':
        throw new LedgerError('INDEX_NOT_FOUND', `there is no index on ${path} of ${db}`)
      case 'no-database':
        throw new LedgerError('DATABASE_NOT_FOUND', `there is no database ${db}`)
      case 'too-many':
        throw new LedgerError(
          'INDEXES_TOO_MANY',
          `${db} has as many indexes as a database may have`,
        )
    }
  }
}

/**
 * The items of the database created at `database` that `query` asks for, page by page. The first page
 * is read before this resolves, so what is refused is refused in time.
 * Errors: StoreError (SEARCH_TOO_LARGE); FILTER_AFTER_ORDER.
 */
export async function searchPages(
  store: StoreReader,
  database: number,
  { filter, after, docs }: ItemQuery,
): Promise<Found> {
  if (after !== null && filter.order.length > 0) {
    throw new LedgerError(
      'FILTER_AFTER_ORDER',
      'after goes on in the order of creation: leave out the order, or page by offset',
    )
  }
  const { where, order, fields } = filter
  const search: ItemSearch = {
    where,
    order,
    after,
    offset: filter.offset ?? 0,
    limit: filter.limit,
    text: docs,
  }
  const { index, pieces } = await store.search(database, search)
  const pages = pagesOf(pieces)
  const first = await pages.next()
  return { index, pages: rejoined(first, pages, docs ? fields : null) }
}

/** The pieces that hold something; between any two others have their turn. */
async function* pagesOf(pieces: AsyncIterable<FoundItem[]>): AsyncGenerator<FoundItem[]> {
  for await (const piece of pieces) {
    if (piece.length > 0) yield piece
    await nextTurn()
  }
}

async function* rejoined(
  first: IteratorResult<FoundItem[], void>,
  rest: AsyncIterable<FoundItem[]>,
  fields: Fields | null,
): AsyncGenerator<FoundItem[]> {
  if (first.done === true) return
  const shown = (page: FoundItem[]) =>
    fields === null ? page : page.map((item) => ({ ...item, text: shownText(item.text, fields) }))
  yield shown(first.value)
  for await (const page of rest) yield shown(page)
}

function shownText(text: string | null, fields: Fields): string {
  return canonicalJson(projected(storedJson(text ?? '{}'), fields))
}
