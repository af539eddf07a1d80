// Filters on members of items, and an independent, simple implementation of their results.
import fc from 'fast-check'
import type { Json, JsonObject } from '../../src/base/json.ts'

export interface Asking {
  readonly where: JsonObject
  readonly order?: string
  readonly limit?: number
  readonly offset?: number
}

const operand = fc.oneof(
  fc.integer({ min: -2, max: 3 }),
  fc.constantFrom<Json>(null, true, 'a', 'b', 'é'),
)
const bound = fc.oneof(fc.integer({ min: -2, max: 3 }), fc.constantFrom('a', 'b'))
const member = fc.constantFrom('n', 'm')
const condition: fc.Arbitrary<JsonObject> = fc.oneof(
  fc.tuple(member, operand).map(([name, value]) => ({ [name]: value })),
  fc
    .tuple(member, fc.constantFrom('eq', 'neq'), operand)
    .map(([name, operator, value]) => ({ [name]: { [operator]: value } })),
  fc
    .tuple(member, fc.constantFrom('gt', 'gte', 'lt', 'lte'), bound)
    .map(([name, operator, value]) => ({ [name]: { [operator]: value } })),
  fc
    .tuple(member, fc.constantFrom('inq', 'nin'), fc.array(operand, { minLength: 1, maxLength: 3 }))
    .map(([name, operator, values]) => ({ [name]: { [operator]: values } })),
  fc.tuple(member, fc.boolean()).map(([name, exists]) => ({ [name]: { exists } })),
)
const where: fc.Arbitrary<JsonObject> = fc.oneof(
  condition,
  fc
    .tuple(fc.constantFrom('and', 'or'), fc.array(condition, { minLength: 1, maxLength: 3 }))
    .map(([name, list]) => ({ [name]: list })),
)

export const filters: fc.Arbitrary<Asking> = fc.record(
  {
    where,
    order: fc.constantFrom('n', 'n DESC', 'm, n DESC'),
    limit: fc.integer({ min: 1, max: 3 }),
    offset: fc.integer({ min: 0, max: 2 }),
  },
  { requiredKeys: ['where'] },
)

/** Returns the ids of the items that match `asking`, in the order that it requests. Default: order of creation. */
export function found(items: readonly JsonObject[], asking: Asking): string[] {
  const matching = items.filter((item) => holds(asking.where, item))
  const criteria = (asking.order ?? '').split(', ').filter((each) => each !== '')
  const places = matching.map((item, place) => ({ item, place }))
  places.sort((a, b) => {
    let sign = 1
    for (const each of criteria) {
      const [name = '', direction] = each.split(' ')
      sign = direction === 'DESC' ? -1 : 1
      const difference = compareKeys(a.item[name], b.item[name])
      if (difference !== 0) return sign * difference
    }
    // Equal items are in order of creation, or newest first if the last criterion is descending.
    return sign * (a.place - b.place)
  })
  const { limit = places.length, offset = 0 } = asking
  return places.slice(offset, offset + limit).map(({ item }) => String(item.id))
}

function holds(condition: JsonObject, item: JsonObject): boolean {
  return Object.entries(condition).every(([name, condition]) => {
    if (name === 'and' && Array.isArray(condition)) {
      return condition.every((each) => holds(each as JsonObject, item))
    }
    if (name === 'or' && Array.isArray(condition)) {
      return condition.some((each) => holds(each as JsonObject, item))
    }
    const tests =
      typeof condition === 'object' && condition !== null ? condition : { eq: condition }
    return Object.entries(tests).every(([operator, value]) => test(operator, value, item, name))
  })
}

function test(operator: string, value: Json, item: JsonObject, name: string): boolean {
  const has = Object.hasOwn(item, name)
  const is = has ? item[name] : null
  // A condition holds for an array if it holds for one element.
  const values: Json[] = Array.isArray(is) ? is : [is ?? null]
  const some = (holdsFor: (one: Json) => boolean) => values.some(holdsFor)
  const than = (accepts: (difference: number) => boolean) =>
    some(
      (one) =>
        typeof one === typeof value &&
        (typeof one === 'number' || typeof one === 'string') &&
        accepts(order(one, value as never)),
    )
  const list = Array.isArray(value) ? value : [value]
  switch (operator) {
    case 'eq':
    case 'inq':
      return some((one) => list.includes(one))
    case 'neq':
    case 'nin':
      return !some((one) => list.includes(one))
    case 'gt':
      return than((difference) => difference > 0)
    case 'gte':
      return than((difference) => difference >= 0)
    case 'lt':
      return than((difference) => difference < 0)
    case 'lte':
      return than((difference) => difference <= 0)
    default:
      return has === value
  }
}

/** Orders missing and null first, then false, true, numbers and texts. All other values come last and are equal. */
function compareKeys(a: Json | undefined, b: Json | undefined): number {
  const ranks = [rank(a), rank(b)] as const
  if (ranks[0] !== ranks[1]) return ranks[0] - ranks[1]
  return typeof a === 'number' || typeof a === 'string' ? order(a, b as never) : 0
}

function rank(value: Json | undefined): number {
  if (value === undefined || value === null) return 0
  if (typeof value === 'boolean') return value ? 2 : 1
  return typeof value === 'number' ? 3 : typeof value === 'string' ? 4 : 5
}

/** Orders numbers by value, and texts by code points. */
function order<Value extends string | number>(a: Value, b: Value): number {
  if (typeof a === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(String(b)))
  return Number(a) - Number(b)
}
