import type { Bound, Condition, OrderTerm, Where } from '../../filter/index.ts'
import type { ItemSearch, StoredItem } from '../port/store.ts'
import { isExactKey, type KeyRange, keyRange, toIndexKey } from './index-keys.ts'

/**
 * Maximum positions that a search reads from an index at once. A condition with more positions does not use its index.
 */
const LISTED_MAX = 20_000
/** Maximum number of positions for which sorting by id is faster than scanning the ids. */
const LISTED_BEFORE_IDS_MAX = 2_000
/** Maximum keys looked up for one condition. */
const KEYS_MAX = 100

/** A declared index whose build is complete. */
export interface ReadyIndex {
  readonly number: number
  readonly database: number
  readonly path: string
}

/** Ids from `from` (inclusive) to `to` (exclusive), by code points. */
export interface IdRange {
  readonly from: string
  readonly to: string
}

/** The rows that a search reads, and their order. */
export type RowAccess =
  /** All items, in creation order, from `after` on. */
  | { readonly by: 'creation'; readonly after: number }
  /** The items at one key of an index, in creation order. `isExact` means that all these items match. */
  | {
      readonly by: 'key'
      readonly index: ReadyIndex
      readonly key: Uint8Array
      readonly isExact: boolean
      readonly after: number
    }
  /** All items, in the order of an index. */
  | { readonly by: 'index'; readonly index: ReadyIndex; readonly descending: boolean }
  /** The items with ids in a range, in the order of their ids. `where` is the predicate that is left to check. */
  | {
      readonly by: 'id'
      readonly range: IdRange
      readonly isOrdered: boolean
      readonly descending: boolean
      readonly where: Where | null
    }
  /** Positions found in an index, in creation order. `isExact` means that all items at these positions match now. */
  | {
      readonly by: 'list'
      readonly index: ReadyIndex
      readonly positions: readonly number[]
      readonly isExact: boolean
    }

/** An access whose rows all match, so that counting them reads no items. */
export type CountedAccess = Extract<RowAccess, { by: 'creation' | 'key' }>

/** A stream of positions of items. */
export interface Scan {
  /** Whether every position matches; otherwise the caller must check the items. */
  readonly isExact: boolean
  /** Pieces of bounded size, possibly empty. Errors: SEARCH_INTERRUPTED if the index is removed. */
  readonly pieces: AsyncIterable<readonly number[]>
}

/**
 * Reads the rows of a search from an engine. Each call, and each piece of a result, is bounded work on the current
 * state.
 */
export interface SearchRows {
  /** Returns the packed position after the newest block. */
  end(): Promise<number>
  readyIndexes(database: number): Promise<ReadyIndex[]>
  /** Returns whether an index has more than `count` entries with `key`. */
  hasMore(index: ReadyIndex, key: Uint8Array, count: number): Promise<boolean>
  /**
   * Returns the positions of at most `limit` entries in a range of keys, in any order; null if the index was removed
   * after `readyIndexes`.
   */
  positions(
    index: ReadyIndex,
    range: KeyRange,
    options: { readonly elementsOnly: boolean; readonly limit: number },
  ): Promise<number[] | null>
  scan(database: number, access: Exclude<RowAccess, { by: 'list' }>, where: Where | null): Scan
  /**
   * Counts the rows of `access`, in pieces of bounded size. Reads indexes only.
   * Errors: SEARCH_INTERRUPTED if the index is removed.
   */
  counts(database: number, access: CountedAccess): AsyncIterable<number>
  /**
   * Returns the existing items at `positions`, in that order, until their texts reach about `charactersMax`, but at
   * least one item. Without `text`, returns all items.
   */
  items(
    positions: readonly number[],
    options: { readonly text: boolean; readonly charactersMax: number },
  ): Promise<(Omit<StoredItem, 'text'> & { readonly text: string | null })[]>
}

/** Reads the items of one database as they were before a position. Each piece is bounded work. */
export interface FormerRows extends Pick<SearchRows, 'items'> {
  /** Yields the positions of the items that were created after `after`, in creation order, at most `rows` at once. */
  positions(after: number, rows: number): AsyncIterable<readonly number[]>
  /**
   * Steps over at most `items` items that were created after `after`: yields the position of the last item of each
   * step, and the number of its items.
   */
  steps(
    after: number,
    items: number,
  ): AsyncIterable<{ readonly after: number; readonly items: number }>
  /** Yields numbers whose sum is the number of items. */
  counts(): AsyncIterable<number>
}

/**
 * Chooses the access that reads the least:
 * 1. one key of an index, for a condition on one value;
 * 2. several keys, or a range, of an index, if that gives at most LISTED_MAX positions;
 * 3. an index whose order is the requested order; preferred to case 1 if the key has more than LISTED_MAX positions;
 * 4. a range of ids, unless creation order is requested; preferred to cases 1 and 2 if the order of ids is requested
 * and the condition has more than LISTED_BEFORE_IDS_MAX positions;
 * 5. all items.
 * Considers only conditions that every match meets: `where` itself, or members of its `all`.
 */
export async function chooseAccess(
  rows: SearchRows,
  database: number,
  { where, order, after }: ItemSearch,
): Promise<RowAccess> {
  const ready = await rows.readyIndexes(database)
  const indexes = new Map(ready.map((index) => [index.path, index]))
  const start = after ?? -1
  const [term] = order
  const ordering = order.length === 1 ? indexes.get(term?.path.join('.') ?? '') : undefined
  const inOrder: RowAccess | null =
    ordering === undefined
      ? null
      : { by: 'index', index: ordering, descending: term?.descending === true }
  const byId = idAccess(where, order)
  const isById = byId?.isOrdered === true

  const required = requiredConditions(where)
  for (const condition of required) {
    const index = indexes.get(condition.path.join('.'))
    const value = onlyValue(condition)
    if (index === undefined || value === undefined) continue
    const key = toIndexKey(value)
    if (isById && (await rows.hasMore(index, key, LISTED_BEFORE_IDS_MAX))) continue
    if (inOrder !== null && (await rows.hasMore(index, key, LISTED_MAX))) return inOrder
    return {
      by: 'key',
      index,
      key,
      isExact: condition === where && isExactKey(value),
      after: start,
    }
  }
  const max = isById ? LISTED_BEFORE_IDS_MAX : LISTED_MAX
  for (const condition of required) {
    const index = indexes.get(condition.path.join('.'))
    if (index === undefined) continue
    const found = await listPositions(rows, index, condition, required, max)
    if (found === null) continue
    const positions = found.filter((position) => position > start)
    return { by: 'list', index, positions, isExact: condition === where && hasExactKeys(condition) }
  }
  return inOrder ?? byId ?? { by: 'creation', after: start }
}

/** Chooses the access that counts the matches of `where` with the least reading. */
export async function chooseCountAccess(
  rows: SearchRows,
  database: number,
  where: Where | null,
): Promise<RowAccess> {
  const query = { where, order: [], after: null, offset: 0, limit: null, text: false }
  const access = await chooseAccess(rows, database, query)
  // The order does not matter for a count, so a range of ids is better than all items.
  return access.by === 'creation' ? (idAccess(where, BY_ID) ?? access) : access
}

const BY_ID: readonly OrderTerm[] = [{ path: ['id'], descending: false }]

/** Returns the conditions that every match of `where` meets. */
function requiredConditions(where: Where | null): Condition[] {
  if (where === null || where.kind === 'any') return []
  const all = where.kind === 'all' ? where.of : [where]
  return all.flatMap((each) => {
    if (each.kind === 'all') return requiredConditions(each)
    return each.kind === 'condition' && !each.negated ? [each] : []
  })
}

function onlyValue({ test }: Condition) {
  return test.kind === 'equals' && test.values.length === 1 ? test.values[0] : undefined
}

/** Returns whether each item with a key that `listPositions` looks up matches the condition. */
function hasExactKeys({ test }: Condition): boolean {
  // `listPositions` uses a range only if its keys are exact.
  return test.kind === 'range' || (test.kind === 'equals' && test.values.every(isExactKey))
}

/**
 * Returns the positions that an index gives for `condition`, ascending. Returns null if the index cannot evaluate the
 * condition, was removed, or gives more than `max` positions.
 */
async function listPositions(
  rows: SearchRows,
  index: ReadyIndex,
  { path, test }: Condition,
  required: readonly Condition[],
  max: number,
): Promise<number[] | null> {
  const positions = new Set<number>()
  let isIndexed = true
  const lookUp = async (range: KeyRange, elementsOnly: boolean) => {
    const limit = max + 1 - positions.size
    const found = await rows.positions(index, range, { elementsOnly, limit })
    for (const position of found ?? []) positions.add(position)
    if (found === null) isIndexed = false
  }
  if (test.kind === 'equals' && test.values.length <= KEYS_MAX) {
    for (const key of test.values.map(toIndexKey)) {
      if (positions.size > max) return null
      await lookUp({ from: key, fromIncluded: true, to: key, toIncluded: true }, false)
    }
  } else if (
    test.kind === 'range' &&
    isExactKey(test.from?.value ?? 0) &&
    isExactKey(test.to?.value ?? 0)
  ) {
    const ends = withOtherEnd(test, path, required)
    await lookUp(keyRange(ends.from, ends.to), false)
    // Different elements of an array may meet the two conditions, so elements are looked up with one condition only.
    if (ends !== test) await lookUp(keyRange(test.from, test.to), true)
  } else {
    return null
  }
  if (positions.size > max || !isIndexed) return null
  return [...positions].sort((one, other) => one - other)
}

type Ends = { readonly from: Bound | null; readonly to: Bound | null }

/** Adds the missing end of `ends` from another condition on the same path, such as `lt` for `gte`. */
function withOtherEnd(ends: Ends, path: readonly string[], required: readonly Condition[]): Ends {
  const type = typeof (ends.from ?? ends.to)?.value
  for (const { path: other, test } of required) {
    if (test.kind !== 'range' || other.join('.') !== path.join('.')) continue
    const { from, to } = { from: ends.from ?? test.from, to: ends.to ?? test.to }
    const isNarrower =
      (ends.from === null) !== (from === null) || (ends.to === null) !== (to === null)
    const isUsable = [from, to].every(
      (end) => end !== null && typeof end.value === type && isExactKey(end.value),
    )
    if (isNarrower && isUsable) return { from, to }
  }
  return ends
}

function idAccess(
  where: Where | null,
  order: readonly OrderTerm[],
): Extract<RowAccess, { by: 'id' }> | null {
  if (where === null || order.length === 0) return null
  const range = findIdRange(requiredConditions(where))
  if (range === null) return null
  const [term] = order
  const isOrdered = order.length === 1 && term?.path.length === 1 && term.path[0] === 'id'
  const descending = isOrdered && term?.descending === true
  return { by: 'id', range, isOrdered, descending, where: withoutRange(where, range) }
}

/** Returns the range of ids that `required` implies, or null. */
function findIdRange(required: readonly Condition[]): IdRange | null {
  let range: Partial<IdRange> = {}
  for (const { path, test } of required) {
    if (path.length !== 1 || path[0] !== 'id' || test.kind !== 'range') continue
    const { from, to } = test
    if (typeof from?.value === 'string' && from.inclusive) range = { from: from.value, ...range }
    if (typeof to?.value === 'string' && !to.inclusive) range = { to: to.value, ...range }
  }
  const { from, to } = range
  return from === undefined || to === undefined ? null : { from, to }
}

/** Removes the condition that `range` implies, if it is the whole `where` or a member of its `all`. */
function withoutRange(where: Where, range: IdRange): Where | null {
  const isRange = (each: Where) => {
    const own = each.kind !== 'condition' || each.negated ? null : findIdRange([each])
    return own !== null && own.from === range.from && own.to === range.to
  }
  if (where.kind === 'condition') return isRange(where) ? null : where
  if (where.kind !== 'all') return where
  const of = where.of.filter((each) => !isRange(each))
  return of.length === 0 ? null : { kind: 'all', of }
}
