import { isJsonObject, type Json, type JsonObject } from '../base/json.ts'
import type { Bound, Condition, Fields, OrderTerm, Path, Scalar, Test, Where } from './filter.ts'
import { fits } from './pattern.ts'

/**
 * Returns whether `resource` matches `where`. This function defines the operators, so every storage engine must give
 * the same result.
 *
 * - A condition holds if one of the values at its path (`scalarsAt`) passes the test. A negated condition holds if no
 *   value passes. So `neq`, `nin`, `nlike` and `nilike` also hold if the member is absent.
 * - Values of different types are never equal, and none is less than another.
 * - An absent member equals null; only `exists` distinguishes an absent member from null.
 */
export function matches(where: Where, resource: JsonObject): boolean {
  switch (where.kind) {
    case 'all':
      return where.of.every((each) => matches(each, resource))
    case 'any':
      return where.of.some((each) => matches(each, resource))
    case 'condition':
      return holds(where, resource) !== where.negated
  }
}

/** Returns the maximum number of matching steps per character of a text, summed over all patterns in `where`. */
export function countPatternSteps(where: Where): number {
  if (where.kind !== 'condition')
    return where.of.reduce((sum, each) => sum + countPatternSteps(each), 0)
  return where.test.kind === 'pattern' ? where.test.pattern.steps : 0
}

function holds({ path, test }: Condition, resource: JsonObject): boolean {
  if (test.kind === 'exists') return valuesAt(resource, path).length > 0
  return scalarsAt(resource, path).some((value) => passes(value, test))
}

function passes(value: Scalar, test: Exclude<Test, { kind: 'exists' }>): boolean {
  switch (test.kind) {
    case 'equals':
      return test.values.includes(value)
    case 'range':
      return isBeyond(test.from, value, 1) && isBeyond(test.to, value, -1)
    case 'pattern':
      return typeof value === 'string' && fits(test.pattern, value)
  }
}

/** Returns whether `value` is above (`sign` 1) or below (`sign` -1) `bound`, or equal to an inclusive `bound`. */
function isBeyond(bound: Bound | null, value: Scalar, sign: 1 | -1): boolean {
  if (bound === null) return true
  const compared = difference(value, bound.value)
  if (compared === null) return false
  return compared === 0 ? bound.inclusive : compared * sign > 0
}

/** Returns a number whose sign is the order of two numbers or two texts, or null for values of different types. */
function difference(value: Scalar, limit: number | string): number | null {
  if (typeof value === 'number' && typeof limit === 'number') return value - limit
  if (typeof value === 'string' && typeof limit === 'string') return compareTexts(value, limit)
  return null
}

function isScalar(value: Json): value is Scalar {
  return typeof value !== 'object' || value === null
}

/**
 * Returns the values at `path`. If the path passes through an array, it continues in each element that is an object.
 * Returns an empty list if there is no such member.
 */
export function valuesAt(resource: JsonObject, path: Path): Json[] {
  let values: Json[] = [resource]
  for (const step of path) {
    const next: Json[] = []
    for (const value of values) {
      for (const holder of Array.isArray(value) ? value : [value]) {
        const member = memberAt(holder, step)
        if (member !== undefined) next.push(member)
      }
    }
    values = next
  }
  return values
}

/**
 * Returns the values at `path` that conditions compare: scalars, and the scalar elements of an array. Returns null as
 * the only value if there is no such member.
 */
export function scalarsAt(resource: JsonObject, path: Path): Scalar[] {
  const values = valuesAt(resource, path)
  if (values.length === 0) return [null]
  return values.flatMap((value) => (Array.isArray(value) ? value : [value])).filter(isScalar)
}

/** Returns an own member. Inherited members, such as `toString`, count as absent. */
function memberAt(value: Json, name: string): Json | undefined {
  return isJsonObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

/** Stands for any array or object when values are sorted. */
export const COMPOUND = Symbol('an array or object')
export type SortValue = Scalar | typeof COMPOUND

/** Maximum UTF-16 units of a string that sorting compares. Bounds the memory of a sort. */
const SORT_CHARACTERS = 256

/**
 * Returns the value at `path` for sorting. Returns null if the path has no value, COMPOUND if the value is an array or
 * object or the path passes through an array, and only the beginning of a long text (`sortText`).
 */
export function sortValueAt(resource: JsonObject, path: Path): SortValue {
  const value = singleValueAt(resource, path)
  return typeof value === 'string' ? sortText(value) : value
}

/** Like `sortValueAt`, but returns whole texts. */
export function singleValueAt(resource: JsonObject, path: Path): SortValue {
  let value: Json = resource
  for (const step of path) {
    const member = memberAt(value, step)
    if (member === undefined) return Array.isArray(value) ? COMPOUND : null
    value = member
  }
  return isScalar(value) ? value : COMPOUND
}

/**
 * Returns the first SORT_CHARACTERS units of `text`, which orders and indexes compare. Never splits a surrogate pair.
 */
export function sortText(text: string): string {
  if (text.length <= SORT_CHARACTERS) return text
  const cut = text.slice(0, SORT_CHARACTERS)
  // A copy, because a slice would keep the whole text in memory.
  return [...(cut.isWellFormed() ? cut : cut.slice(0, -1))].join('')
}

/**
 * Compares two texts by code points. Every engine uses this order, which is also the order of the UTF-8 bytes.
 * JavaScript's `<` differs for surrogate pairs.
 */
export function compareTexts(one: string, other: string): number {
  const length = Math.min(one.length, other.length)
  for (let at = 0; at < length; at += 1) {
    const a = one.charCodeAt(at)
    const b = other.charCodeAt(at)
    if (a !== b) return codePointRank(a) - codePointRank(b)
  }
  return one.length - other.length
}

/**
 * Maps a UTF-16 unit to a number that sorts in code point order. Surrogates come last, because they encode the highest
 * code points.
 */
function codePointRank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit
}

/** Rank of the type: absent or null, boolean, number, text, array or object. */
function typeRank(value: SortValue): number {
  if (value === null) return 0
  if (value === COMPOUND) return 4
  if (typeof value === 'boolean') return 1
  return typeof value === 'number' ? 2 : 3
}

export function compareSortValues(one: SortValue, other: SortValue): number {
  if (typeof one === 'string' && typeof other === 'string') return compareTexts(one, other)
  const rank = typeRank(one) - typeRank(other)
  if (rank !== 0 || one === other) return rank
  if (typeof one === 'number' && typeof other === 'number') return one - other
  return one === false ? -1 : 1
}

/** Returns the values that `order` compares, one per term. */
export function toSortValues(order: readonly OrderTerm[], resource: JsonObject): SortValue[] {
  return order.map(({ path }) => sortValueAt(resource, path))
}

/** Compares two results of `toSortValues`. */
export function compareByOrder(
  order: readonly OrderTerm[],
  one: readonly SortValue[],
  other: readonly SortValue[],
): number {
  for (const [at, { descending }] of order.entries()) {
    const compared = compareSortValues(one[at] ?? null, other[at] ?? null)
    if (compared !== 0) return descending ? -compared : compared
  }
  return 0
}

/** Returns the members of `resource` that `fields` selects, in their original order. */
export function projected(resource: JsonObject, { kind, names }: Fields): JsonObject {
  const named = new Set(names)
  return Object.fromEntries(
    Object.entries(resource).filter(([name]) => named.has(name) === (kind === 'only')),
  )
}
