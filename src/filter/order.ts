import type { JsonObject } from '../base/json.ts'
import type { OrderTerm } from './filter.ts'
import { COMPOUND, compareTexts, type SortValue, sortValueAt } from './values.ts'

/** Types sort in this order: absent and null, booleans, numbers, texts, arrays and objects. */
function rankOf(value: SortValue): number {
  if (value === null) return 0
  if (value === COMPOUND) return 4
  if (typeof value === 'boolean') return 1
  return typeof value === 'number' ? 2 : 3
}

/** Compares two values of an order: by type, then by value; texts by code points. */
export function compareSortValues(one: SortValue, other: SortValue): number {
  if (typeof one === 'string' && typeof other === 'string') return compareTexts(one, other)
  const rank = rankOf(one) - rankOf(other)
  if (rank !== 0 || one === other) return rank
  if (typeof one === 'number' && typeof other === 'number') return one - other
  return one === false ? -1 : 1
}

/** What `order` compares of `resource`, one value per term. */
export function sortValuesOf(order: readonly OrderTerm[], resource: JsonObject): SortValue[] {
  return order.map(({ path }) => sortValueAt(resource, path))
}

/** Compares what `sortValuesOf` gave for two resources; 0 where `order` does not tell them apart. */
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
