import type { JsonObject } from '../../base/json.ts'
import {
  COMPOUND,
  compareSortValues,
  type Path,
  parsePath,
  type Scalar,
  type SortValue,
  singleValueAt,
  type Where,
} from '../../filter/index.ts'
import { LedgerError } from '../errors.ts'
import { ExactSum } from './exact-sum.ts'

/** Limits of an aggregation. A larger aggregation is rejected. */
export const AGGREGATION_LIMITS = {
  groups: 1_000,
  groupPaths: 2,
  /** Paths of `sum`, `avg`, `min` and `max` together. */
  valuePaths: 16,
  /** Characters of all texts in the result. A text can be as long as an item. */
  textLength: 16 * 1024 * 1024,
} as const

const FUNCTIONS = ['sum', 'avg', 'min', 'max'] as const
type FunctionName = (typeof FUNCTIONS)[number]

/** The values to compute for each group of the items that match `where`. */
export interface AggregationQuery {
  readonly where: Where | null
  /** Items with equal values at all these paths form a group. Without paths, all items form one group. */
  readonly group: readonly Path[]
  readonly functions: readonly { readonly name: FunctionName; readonly path: Path }[]
}

/** The members of every `Group`: the values that its items share, by path, and the number of its items. */
interface GroupKey {
  readonly group: { readonly [path: string]: Scalar }
  readonly count: number
}

/** A group with the results of each function by path. A result is null if no item has a value of a suitable type. */
export type Group = GroupKey & {
  readonly [Name in FunctionName]?: { readonly [path: string]: number | string | null }
}

/**
 * Parses `lists`, each of which contains paths separated by commas.
 * Errors: AGGREGATION_INVALID for a malformed or repeated path, or for more paths than AGGREGATION_LIMITS.
 */
export function aggregationQuery(
  where: Where | null,
  lists: { readonly [Name in FunctionName | 'group']?: string | undefined },
): AggregationQuery {
  const { groupPaths, valuePaths } = AGGREGATION_LIMITS
  const group = parsePaths('group', lists.group)
  const functions = FUNCTIONS.flatMap((name) =>
    parsePaths(name, lists[name]).map((path) => ({ name, path })),
  )
  if (group.length > groupPaths) throw invalid(`group may have at most ${groupPaths} paths`)
  if (functions.length > valuePaths) {
    throw invalid(`sum, avg, min and max may have at most ${valuePaths} paths together`)
  }
  return { where, group, functions }
}

function parsePaths(name: string, list: string | undefined): Path[] {
  if (list === undefined) return []
  const texts = list.split(',').map((text) => text.trim())
  if (new Set(texts).size < texts.length) throw invalid(`${name} contains a path twice`)
  return texts.map((text) => {
    const path = parsePath(text)
    if (path !== null) return path
    throw invalid(
      `${name}: a path must be 1 to 8 member names, separated by dots; separate paths with commas`,
    )
  })
}

function invalid(reason: string): LedgerError {
  return new LedgerError('AGGREGATION_INVALID', reason)
}

/** Accumulates the results of one group. `values` are the values that all its items have at the group paths. */
class GroupValues {
  readonly values: readonly Scalar[]
  count = 0
  /** In the order of the query's functions. */
  readonly #results: readonly Accumulator[]

  constructor(values: readonly Scalar[], { functions }: AggregationQuery) {
    this.values = values
    this.#results = functions.map(({ name }) =>
      name === 'sum' || name === 'avg' ? new NumberSum(name === 'avg') : new Extreme(name),
    )
  }

  /** Returns by how many characters the texts of the results have become longer. */
  add(item: JsonObject, { functions }: AggregationQuery): number {
    this.count += 1
    let growth = 0
    for (const [at, { path }] of functions.entries()) {
      const result = this.#results[at]
      if (result === undefined) continue
      const before = textLength(result.best ?? null)
      result.add(singleValueAt(item, path))
      growth += textLength(result.best ?? null) - before
    }
    return growth
  }

  /** Errors: SUM_TOO_LARGE. */
  result({ group, functions }: AggregationQuery): Group {
    const key = group.map((path, at) => [path.join('.'), this.values[at] ?? null])
    const byFunction = FUNCTIONS.flatMap((name) => {
      const results = functions.flatMap((each, at) =>
        each.name === name ? [[each.path.join('.'), this.#results[at]?.result() ?? null]] : [],
      )
      return results.length === 0 ? [] : [[name, Object.fromEntries(results)]]
    })
    return { group: Object.fromEntries(key), count: this.count, ...Object.fromEntries(byFunction) }
  }
}

function textLength(value: SortValue): number {
  return typeof value === 'string' ? value.length : 0
}

interface Accumulator {
  /** The value that is kept, if the function keeps a value. */
  readonly best?: number | string | null
  add(value: SortValue): void
  result(): number | string | null
}

/** Computes the sum or the average of the numbers, and ignores all other values. */
class NumberSum implements Accumulator {
  readonly #isAverage: boolean
  readonly #sum = new ExactSum()
  #count = 0

  constructor(isAverage: boolean) {
    this.#isAverage = isAverage
  }

  add(value: SortValue): void {
    if (typeof value !== 'number') return
    this.#sum.add(value)
    this.#count += 1
  }

  result(): number | null {
    if (this.#count === 0) return null
    const sum = this.#sum.value
    if (!Number.isFinite(sum)) {
      throw new LedgerError('SUM_TOO_LARGE', 'a sum is beyond the range of JSON numbers (1.8e308)')
    }
    return this.#isAverage ? sum / this.#count : sum
  }
}

/** Finds the least or the greatest number or string in the sort order of filters, and ignores all other values. */
class Extreme implements Accumulator {
  readonly #sign: 1 | -1
  best: number | string | null = null

  constructor(name: 'min' | 'max') {
    this.#sign = name === 'min' ? 1 : -1
  }

  add(value: SortValue): void {
    if (typeof value !== 'number' && typeof value !== 'string') return
    if (this.best === null || compareSortValues(value, this.best) * this.#sign < 0) {
      this.best = value
    }
  }

  result(): number | string | null {
    return this.best
  }
}

/** Returns the value that a group has at `path`. Arrays and objects count as null, because they have no order. */
function groupValueAt(item: JsonObject, path: Path): Scalar {
  const value = singleValueAt(item, path)
  return value === COMPOUND ? null : value
}

/** Groups items and computes the functions of each group. Memory is bounded by AGGREGATION_LIMITS. */
export class Aggregation {
  readonly #query: AggregationQuery
  readonly #groups = new Map<string, GroupValues>()
  #textLength = 0

  constructor(query: AggregationQuery) {
    this.#query = query
    if (query.group.length === 0) this.#groups.set('[]', new GroupValues([], query))
  }

  /** Errors: GROUPS_TOO_MANY. */
  add(item: JsonObject): void {
    const values = this.#query.group.map((path) => groupValueAt(item, path))
    const key = JSON.stringify(values)
    let group = this.#groups.get(key)
    if (group === undefined) {
      if (this.#groups.size === AGGREGATION_LIMITS.groups) {
        throw new LedgerError(
          'GROUPS_TOO_MANY',
          `there are more than ${AGGREGATION_LIMITS.groups} groups: group by members with fewer values, or select fewer items`,
        )
      }
      group = new GroupValues(values, this.#query)
      this.#groups.set(key, group)
      for (const value of values) this.#textLength += textLength(value)
    }
    this.#textLength += group.add(item, this.#query)
    if (this.#textLength > AGGREGATION_LIMITS.textLength) {
      const message = `the texts of the groups have more than ${AGGREGATION_LIMITS.textLength} characters: select fewer items`
      throw new LedgerError('GROUPS_TOO_MANY', message)
    }
  }

  /** Returns the groups in the order of their values. Errors: SUM_TOO_LARGE. */
  result(): Group[] {
    const groups = [...this.#groups.values()].sort((one, other) => {
      for (const [at, value] of one.values.entries()) {
        const compared = compareSortValues(value, other.values[at] ?? null)
        if (compared !== 0) return compared
      }
      return 0
    })
    return groups.map((group) => group.result(this.#query))
  }
}
