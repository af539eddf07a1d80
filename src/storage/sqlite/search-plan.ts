import type { Bound, Condition, Where } from '../../filter/index.ts'
import { isWhole, type KeyRange, keyOf, keyRange } from '../search/index-keys.ts'
import type { ItemSearch } from '../store.ts'
import { IdSource, idRangeOf } from './id-source.ts'
import { READY } from './indexes.ts'
import {
  CreationSource,
  ListSource,
  OrderSource,
  type ReadyIndex,
  type Source,
} from './search-source.ts'
import { LIMIT, type StatementCache } from './statements.ts'
import { compileWhere } from './where-sql.ts'

/** Positions that are taken from an index at once; a condition that gives more is no help. */
const LISTED_MAX = 20_000
/** So many positions are sorted by id sooner than the ids are gone through. */
const IDS_BEFORE = 2_000
/** Keys that are looked up for one condition. */
const KEYS_MAX = 100

/**
 * The source with the least to go through:
 * 1. one key of an index, for a condition that asks for one value;
 * 2. several keys, or a range, of an index, where that gives LISTED_MAX positions or fewer;
 * 3. an index in whose order the items are wanted (before 1, where the key has more than that);
 * 4. a range of ids, where the order of creation is not asked for; before 1 and 2 where the items are
 *    wanted in the order of ids, unless those give IDS_BEFORE positions or fewer;
 * 5. all items.
 * Only conditions that must hold in any case count: the where itself, or members of its `all`.
 */
export function chooseSource(
  statements: StatementCache,
  database: number,
  { where, order, after }: ItemSearch,
): Source {
  const indexes = readyIndexes(statements, database)
  const compiled = where === null ? null : compileWhere(where, 'i.item')
  const start = after ?? -1
  const [term] = order
  const ordering = order.length === 1 ? indexes.get(term?.path.join('.') ?? '') : undefined
  const inOrder = () =>
    ordering === undefined
      ? null
      : new OrderSource(statements, ordering, compiled, term?.descending === true)

  const byId = idSource(statements, database, { where, order })
  const isShortest = byId?.isOrdered === true ? IDS_BEFORE : LISTED_MAX
  for (const condition of necessary(where)) {
    const index = indexes.get(condition.path.join('.'))
    const value = onlyValue(condition)
    if (index === undefined || value === undefined) continue
    const key = keyOf(value)
    if (byId?.isOrdered === true && !isShort(statements, index, key, IDS_BEFORE)) continue
    const isAll = condition === where && isWhole(value)
    const narrowed = { index, key, isAll }
    if (ordering !== undefined && !isShort(statements, index, key, LISTED_MAX))
      return inOrder() as Source
    return new CreationSource(statements, database, compiled, start, narrowed)
  }
  for (const condition of necessary(where)) {
    const index = indexes.get(condition.path.join('.'))
    if (index === undefined) continue
    const positions = listed(statements, index, condition, where, isShortest)
    if (positions !== null) {
      return new ListSource(
        index,
        positions.filter((position) => position > start),
      )
    }
  }
  return inOrder() ?? byId ?? new CreationSource(statements, database, compiled, start)
}

/** Goes by ids, where a range of them must be met; null where creation has to be the order. */
function idSource(
  statements: StatementCache,
  database: number,
  { where, order }: Pick<ItemSearch, 'where' | 'order'>,
): IdSource | null {
  if (where === null || order.length === 0) return null
  const range = idRangeOf(necessary(where))
  return range === null ? null : new IdSource(statements, database, range, { where, order })
}

function readyIndexes(statements: StatementCache, database: number): Map<string, ReadyIndex> {
  const rows = statements
    .get('SELECT number, path FROM indexes WHERE db = ? AND built = ?')
    .all(database, READY)
  return new Map(
    rows.map(([number, path]) => [
      String(path),
      { number: Number(number), database, path: String(path) },
    ]),
  )
}

/** Conditions without which `where` cannot hold. */
function necessary(where: Where | null): Condition[] {
  if (where === null || where.kind === 'any') return []
  const all = where.kind === 'all' ? where.of : [where]
  return all.flatMap((each) => {
    if (each.kind === 'all') return necessary(each)
    return each.kind === 'condition' && !each.negated ? [each] : []
  })
}

function onlyValue({ test }: Condition) {
  return test.kind === 'equals' && test.values.length === 1 ? test.values[0] : undefined
}

function isShort(
  statements: StatementCache,
  { number }: ReadyIndex,
  key: Uint8Array,
  max: number,
): boolean {
  const sql = 'SELECT 1 FROM index_entries WHERE number = ? AND key = ? LIMIT 1 OFFSET ?'
  return statements.get(sql).get(number, key, max) === undefined
}

/** The positions that `condition` leaves, ascending; null where no index helps, or they are too many. */
function listed(
  statements: StatementCache,
  index: ReadyIndex,
  { path, test }: Condition,
  where: Where | null,
  max: number,
): number[] | null {
  const positions = new Set<number>()
  const lookUp = (range: KeyRange, elementsOnly: boolean) => {
    const rows = statements
      .get(
        `SELECT created FROM index_entries WHERE number = ?
          AND key ${range.fromIncluded ? '>=' : '>'} ? AND key ${range.toIncluded ? '<=' : '<'} ?
          ${elementsOnly ? 'AND sorts = 0' : ''} ${LIMIT}`,
      )
      .all(index.number, range.from, range.to, max + 1 - positions.size)
    for (const [created] of rows) positions.add(Number(created))
  }
  if (test.kind === 'equals' && test.values.length <= KEYS_MAX) {
    for (const key of test.values.map(keyOf)) {
      if (positions.size > max) return null
      lookUp({ from: key, fromIncluded: true, to: key, toIncluded: true }, false)
    }
  } else if (
    test.kind === 'range' &&
    isWhole(test.from?.value ?? 0) &&
    isWhole(test.to?.value ?? 0)
  ) {
    const both = narrowed(test, path, where)
    lookUp(keyRange(both.from, both.to), false)
    // One element of an array may meet one condition and another the other.
    if (both !== test) lookUp(keyRange(test.from, test.to), true)
  } else {
    return null
  }
  if (positions.size > max) return null
  return [...positions].sort((one, other) => one - other)
}

type Ends = { readonly from: Bound | null; readonly to: Bound | null }

/** `ends`, with the missing one from another condition on the same path: `gte` beside `lt`. */
function narrowed(ends: Ends, path: readonly string[], where: Where | null): Ends {
  const type = typeof (ends.from ?? ends.to)?.value
  for (const { path: other, test } of necessary(where)) {
    if (test.kind !== 'range' || other.join('.') !== path.join('.')) continue
    const { from, to } = { from: ends.from ?? test.from, to: ends.to ?? test.to }
    const isMore = (ends.from === null) !== (from === null) || (ends.to === null) !== (to === null)
    const isSame = [from, to].every(
      (end) => end !== null && typeof end.value === type && isWhole(end.value),
    )
    if (isMore && isSame) return { from, to }
  }
  return ends
}
