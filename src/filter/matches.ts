import type { JsonObject } from '../base/json.ts'
import type { Bound, Condition, Scalar, Test, Where } from './filter.ts'
import { fits } from './pattern.ts'
import { compareTexts, reached, scalarsAt } from './values.ts'

/**
 * Whether `resource` is one that `where` asks for. This says what every operator means; an engine's
 * own way of finding resources must agree with it.
 *
 * - A condition holds when one of the values at its path passes (`values.ts`); a negated one when none
 *   does. So `neq`, `nin`, `nlike` and `nilike` also hold where the member is absent.
 * - Values of different types are never equal, and neither is less than the other.
 * - Absent is equal to null; only `exists` tells them apart.
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

/** How many steps `matches` takes at most for a character of a text: what its patterns come to. */
export function stepsOf(where: Where): number {
  if (where.kind !== 'condition') return where.of.reduce((sum, each) => sum + stepsOf(each), 0)
  return where.test.kind === 'pattern' ? where.test.pattern.steps : 0
}

function holds({ path, test }: Condition, resource: JsonObject): boolean {
  if (test.kind === 'exists') return reached(resource, path).length > 0
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

/** Whether `value` lies on the side of `bound` that `sign` says, or at it where that counts. */
function isBeyond(bound: Bound | null, value: Scalar, sign: 1 | -1): boolean {
  if (bound === null) return true
  const compared = difference(value, bound.value)
  if (compared === null) return false
  return compared === 0 ? bound.inclusive : compared * sign > 0
}

/** Null for values of different types. */
function difference(value: Scalar, limit: number | string): number | null {
  if (typeof value === 'number' && typeof limit === 'number') return value - limit
  if (typeof value === 'string' && typeof limit === 'string') return compareTexts(value, limit)
  return null
}
