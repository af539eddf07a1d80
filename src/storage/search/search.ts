import { parseJson } from '../../base/json.ts'
import {
  compareByOrder,
  countPatternSteps,
  matches,
  type OrderTerm,
  type SortValue,
  toSortValues,
  type Where,
} from '../../filter/index.ts'
import { StoreError } from '../port/errors.ts'
import {
  type CountedItems,
  type FoundItem,
  type FoundItems,
  type ItemSearch,
  PAGE_CHARACTERS,
  SORTED_ITEMS_MAX,
} from '../port/store.ts'
import {
  chooseAccess,
  chooseCountAccess,
  type FormerRows,
  type RowAccess,
  type Scan,
  type SearchRows,
} from './plan.ts'

/** Number of positions of a list that are read at once. */
const PIECE_POSITIONS = 1_000
/** Cost of parsing a character of an item, in steps of a pattern. */
const PARSE_STEPS = 1

/** See `StoreReader.search`; works with any engine. */
export async function searchItems(
  rows: SearchRows,
  database: number,
  query: ItemSearch,
): Promise<FoundItems> {
  // Read before the rows, so that a later change of an item is never taken for an earlier one.
  const end = query.text && query.where !== null ? await rows.end() : Number.POSITIVE_INFINITY
  const access = await chooseAccess(rows, database, query)
  const scan = openScan(rows, database, access, query.where)
  const isOrdered = access.by === 'index' || (access.by === 'id' && access.isOrdered)
  const search = new Search(rows, scan, query, isOrdered || query.order.length === 0, end)
  return { index: indexName(access), pieces: search.pieces() }
}

/** See `StoreReader.count`; works with any engine. */
export async function countItems(
  rows: SearchRows,
  database: number,
  where: Where | null,
): Promise<CountedItems> {
  const access = await chooseCountAccess(rows, database, where)
  const index = indexName(access)
  if (access.by === 'list' && access.isExact) {
    return { index, pieces: onePiece(access.positions.length) }
  }
  const isCounted =
    (access.by === 'key' && access.isExact) || (access.by === 'creation' && where === null)
  if (isCounted) return { index, pieces: rows.counts(database, access) }
  const scan = openScan(rows, database, access, where)
  return { index, pieces: new Search(rows, scan, { where, ...EVERYTHING }, true).counts() }
}

/** Like `searchItems`, for the items as they were before a position. Uses no index. */
export function searchFormerItems(rows: FormerRows, query: ItemSearch): FoundItems {
  return { index: null, pieces: formerPieces(rows, query) }
}

async function* formerPieces(rows: FormerRows, query: ItemSearch): AsyncGenerator<FoundItem[]> {
  const { where, order } = query
  let { offset } = query
  let after = query.after ?? -1
  const isWhole = where === null && order.length === 0
  if (isWhole) {
    for await (const step of rows.steps(after, offset)) {
      after = step.after
      offset -= step.items
      yield []
    }
  }
  const wanted = isWhole && query.limit !== null ? offset + query.limit : Number.POSITIVE_INFINITY
  const scan = { isExact: where === null, pieces: rows.positions(after, wanted) }
  yield* new Search(rows, scan, { ...query, offset }, order.length === 0).pieces()
}

/** Like `countItems`, for the items as they were before a position. */
export function countFormerItems(rows: FormerRows, where: Where | null): CountedItems {
  if (where === null) return { index: null, pieces: rows.counts() }
  const scan = { isExact: false, pieces: rows.positions(-1, Number.POSITIVE_INFINITY) }
  return { index: null, pieces: new Search(rows, scan, { where, ...EVERYTHING }, true).counts() }
}

const EVERYTHING = { order: [], after: null, offset: 0, limit: null, text: false }

async function* onePiece(count: number): AsyncGenerator<number> {
  yield count
}

function openScan(
  rows: SearchRows,
  database: number,
  access: RowAccess,
  where: Where | null,
): Scan {
  // An item may change between finding its position and reading it, so a list is never exact.
  if (access.by === 'list') return { isExact: false, pieces: splitPositions(access.positions) }
  return rows.scan(database, access, access.by === 'id' ? access.where : where)
}

function indexName(access: RowAccess): string | null {
  if (access.by === 'id') return 'id'
  return access.by === 'creation' ? null : access.index.path
}

async function* splitPositions(positions: readonly number[]): AsyncGenerator<readonly number[]> {
  for (let at = 0; at < positions.length; at += PIECE_POSITIONS) {
    yield positions.slice(at, at + PIECE_POSITIONS)
  }
}

/**
 * Removes from `items` those whose revision is at position `from` or later and does not match `where`, and the texts of
 * the others unless `text`.
 */
function keepMatches(items: FoundItem[], where: Where, from: number, text: boolean): void {
  for (const item of items.splice(0)) {
    if (item.revision >= from && !matches(where, parseJson(item.text ?? '{}'))) continue
    items.push(text ? item : { ...item, text: null })
  }
}

/**
 * Reads the items at the positions of a scan, checks and sorts them, and applies offset and limit. Each piece is
 * bounded and reads its own view of the store, so that a search blocks neither the event loop nor the restart of the
 * writer's WAL. The receiver of a piece empties it: a suspended generator keeps its temporary values in memory, so items
 * are handled in plain functions.
 */
class Search {
  readonly #rows: Pick<SearchRows, 'items'>
  readonly #scan: Scan
  readonly #query: ItemSearch
  readonly #isOrdered: boolean
  readonly #charactersMax: number
  /** Packed position from which on a revision is checked, because it was recorded after the scan began. */
  readonly #checkedFrom: number

  constructor(
    rows: Pick<SearchRows, 'items'>,
    scan: Scan,
    query: ItemSearch,
    isOrdered: boolean,
    end = Number.POSITIVE_INFINITY,
  ) {
    this.#rows = rows
    this.#checkedFrom = scan.isExact ? end : -1
    this.#scan = scan
    this.#query = query
    this.#isOrdered = isOrdered
    const steps =
      query.where === null || scan.isExact ? 0 : PARSE_STEPS + countPatternSteps(query.where)
    this.#charactersMax = PAGE_CHARACTERS / Math.max(1, steps)
  }

  /**
   * Yields the results in pieces. The caller may empty a piece, so that no item stays in memory during a long reply.
   * Errors: SEARCH_TOO_LARGE, SEARCH_INTERRUPTED.
   */
  async *pieces(): AsyncGenerator<FoundItem[]> {
    const { order, offset, limit } = this.#query
    const { isExact } = this.#scan
    let skip = offset
    let left = limit ?? Number.POSITIVE_INFINITY
    const pieces = this.#isOrdered ? this.#scan.pieces : this.#sorted(order)
    for await (const piece of pieces) {
      // If every position matches, items before the offset or after the limit are not read.
      const unread = isExact ? Math.min(skip, piece.length) : 0
      skip -= unread
      for (let rest = piece.slice(unread); rest.length > 0; ) {
        const wanted = isExact ? rest.slice(0, left) : rest
        for await (const items of this.#read(wanted, this.#query.text)) {
          const skipped = Math.min(skip, items.length)
          skip -= skipped
          items.splice(0, skipped)
          items.splice(left)
          left -= items.length
          yield items
          if (left <= 0) return
        }
        // Some of these items may have been deleted after their positions were read. Then the next positions fill the limit.
        rest = rest.slice(wanted.length)
      }
      yield []
    }
  }

  /** Counts the matches of each piece; reads no items if every position matches. */
  async *counts(): AsyncGenerator<number> {
    for await (const piece of this.#scan.pieces) {
      if (this.#scan.isExact) yield piece.length
      else for await (const items of this.#read(piece, false)) yield items.length
    }
  }

  /**
   * Sorts all positions by `order`. Equal items are sorted oldest first, or newest first if the last term is
   * descending.
   */
  async *#sorted(order: readonly OrderTerm[]): AsyncGenerator<readonly number[]> {
    const { limit, offset } = this.#query
    const wanted = limit === null ? Number.POSITIVE_INFINITY : limit + offset
    const ties = order.at(-1)?.descending === true ? -1 : 1
    let found: { values: SortValue[]; created: number }[] = []
    const add = (items: FoundItem[]) => {
      for (const { text, created } of items.splice(0)) {
        found.push({ values: toSortValues(order, parseJson(text ?? '{}')), created })
      }
    }
    const sort = () => {
      found.sort((one, other) => {
        const compared = compareByOrder(order, one.values, other.values)
        return compared === 0 ? (one.created - other.created) * ties : compared
      })
      if (found.length > wanted) found = found.slice(0, wanted)
    }
    for await (const positions of this.#scan.pieces) {
      for await (const items of this.#read(positions, true)) {
        add(items)
        if (found.length > 2 * wanted + 1_000) sort()
        if (found.length > SORTED_ITEMS_MAX) {
          throw new StoreError(
            'SEARCH_TOO_LARGE',
            `more than ${SORTED_ITEMS_MAX} items to sort: declare an index on ${order[0]?.path.join('.')}, or give a smaller limit`,
          )
        }
        yield []
      }
    }
    sort()
    yield* splitPositions(found.map(({ created }) => created))
  }

  /** Reads the items at `positions` that still exist and match, in bounded pieces. */
  async *#read(positions: readonly number[], text: boolean): AsyncGenerator<FoundItem[]> {
    const { where } = this.#query
    const isChecked = where !== null && !this.#scan.isExact
    const options = { text: text || isChecked, charactersMax: this.#charactersMax }
    let rest = positions
    while (rest.length > 0) {
      const items = await this.#rows.items(rest, options)
      const last = items.at(-1)?.created
      if (last === undefined) return
      if (where !== null) keepMatches(items, where, this.#checkedFrom, text)
      yield items
      rest = rest.slice(rest.indexOf(last) + 1)
    }
  }
}
