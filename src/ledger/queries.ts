import { setImmediate } from 'node:timers/promises'
import { canonicalJson } from '../base/canonical-json.ts'
import { type Fields, type Filter, pathIn, projected } from '../filter/index.ts'
import {
  type FoundItem,
  type IndexOutcome,
  type StoredIndex,
  type StoreReader,
  storedJson,
} from '../storage/index.ts'
import { LedgerError } from './errors.ts'

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
  /** Reads the items; otherwise only their ids. */
  readonly docs: boolean
}

/** The items found; `index` is the path of the index that was used, null for a scan. */
export interface QueryResult {
  readonly index: string | null
  readonly pages: AsyncIterable<FoundItem[]>
}

/** Searches databases by filters, and manages the indexes. */
export class LedgerQueries {
  readonly #store: StoreReader
  readonly #writer: IndexWriter

  constructor(store: StoreReader, writer: IndexWriter) {
    this.#store = store
    this.#writer = writer
  }

  /** See `searchPages`. */
  find(database: number, query: ItemQuery): Promise<QueryResult> {
    return searchPages(this.#store, database, query)
  }

  /** Lists the declared indexes, in the order of their databases. */
  indexes(): Promise<StoredIndex[]> {
    return this.#store.indexes()
  }

  /** Errors: DATABASE_NOT_FOUND, INDEX_PATH_INVALID, INDEX_EXISTS, INDEXES_TOO_MANY. */
  addIndex(name: IndexName): Promise<void> {
    return this.#change('add', name)
  }

  /** Errors: DATABASE_NOT_FOUND, INDEX_PATH_INVALID, INDEX_NOT_FOUND. */
  removeIndex(name: IndexName): Promise<void> {
    return this.#change('remove', name)
  }

  async #change(action: 'add' | 'remove', { db, path }: IndexName): Promise<void> {
    if (pathIn(path) === null) {
      throw new LedgerError(
        'INDEX_PATH_INVALID',
        'a path must be up to 8 names with dots between them',
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

/**
 * Finds items of the database created at `database`, page by page. The first page is read before this
 * resolves, so that errors come before the reply starts.
 * Errors: StoreError (SEARCH_TOO_LARGE); FILTER_AFTER_ORDER.
 */
export async function searchPages(
  store: StoreReader,
  database: number,
  { filter, after, docs }: ItemQuery,
): Promise<QueryResult> {
  const { where, order, offset, limit, fields } = filter
  if (after !== null && order.length > 0) {
    throw new LedgerError(
      'FILTER_AFTER_ORDER',
      '`after` requires the order of creation: remove `order`, or use `offset`',
    )
  }
  const search = { where, order, after, offset: offset ?? 0, limit, text: docs }
  const { index, pieces } = await store.search(database, search)
  const pages = pagesOf(pieces, docs ? fields : null)
  const first = await pages.next()
  return { index, pages: startingWith(first, pages) }
}

/** Yields the pieces that are not empty, reduced to `fields` unless that is null. */
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
        : piece.map((item) => ({ ...item, text: reduced(item.text, fields) }))
    }
    // Lets the event loop serve other requests between two pieces.
    await setImmediate()
  }
}

async function* startingWith<Page>(
  first: IteratorResult<Page, void>,
  rest: AsyncIterable<Page>,
): AsyncGenerator<Page> {
  if (first.done === true) return
  yield first.value
  yield* rest
}
