import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { JsonObject } from '../base/json.ts'
import {
  COMPOUND,
  compareByOrder,
  compareSortValues,
  compareTexts,
  matches,
  projected,
  type SortValue,
  sortText,
  sortValueAt,
  toSortValues,
} from './matches.ts'
import { parseFilter } from './read-filter.ts'

function matchesJson(where: unknown, resource: JsonObject): boolean {
  const filter = parseFilter({ filter: JSON.stringify({ where }) })
  return filter?.where === null || filter?.where === undefined || matches(filter.where, resource)
}

const apple = {
  id: 'apple',
  qty: 5,
  organic: true,
  note: null,
  tags: ['red', 'sweet', 7, ['deep']],
  none: [],
  grower: { name: 'Ueda', 'odd name': 1 },
  lots: [{ n: 1, at: 'x' }, { n: 9 }, 'loose'],
}

it.each<[string, unknown, boolean]>([
  ['a value', { qty: 5 }, true],
  ['a value of another type', { qty: '5' }, false],
  ['neq', { qty: { neq: 5 } }, false],
  ['neq of an absent member', { weight: { neq: 5 } }, true],
  ['gt', { qty: { gt: 5 } }, false],
  ['gte', { qty: { gte: 5 } }, true],
  ['lte', { qty: { lte: 5 } }, true],
  ['lte, less than', { qty: { lte: 6 } }, true],
  ['lte, more than', { qty: { lte: 4 } }, false],
  ['gte, more than', { qty: { gte: 6 } }, false],
  ['lt of an equal number', { qty: { lt: 5 } }, false],
  ['lt of numbers', { qty: { lt: 10 } }, true],
  ['lt of a text and a number', { qty: { lt: '9' } }, false],
  ['lt of texts', { id: { lt: 'banana' } }, true],
  ['lt of an absent member', { weight: { lt: 5 } }, false],
  ['between, both ends in it', { qty: { between: [5, 5] } }, true],
  ['between with swapped ends', { qty: { between: [6, 4] } }, false],
  ['all operators of a field, one failing', { qty: { gt: 1, lt: 3 } }, false],
  ['all operators of a field, one failing, in reverse order', { qty: { lt: 3, gt: 1 } }, false],
  ['all operators of a field', { qty: { gt: 1, lt: 9, neq: 4 } }, true],
  ['inq', { qty: { inq: [1, 5] } }, true],
  ['inq of an empty list', { qty: { inq: [] } }, false],
  ['nin', { qty: { nin: [1, 5] } }, false],
  ['nin of an absent member', { weight: { nin: [1] } }, true],
  ['like', { id: { like: 'a%e' } }, true],
  ['like in another case', { id: { like: 'A%' } }, false],
  ['ilike', { id: { ilike: 'A%' } }, true],
  ['nlike', { id: { nlike: 'a%' } }, false],
  ['nilike of a number', { qty: { nilike: '5' } }, true],
  ['regexp', { id: { regexp: '^ap{2}' } }, true],
  ['regexp with i', { id: { regexp: '/^AP/i' } }, true],
  ['regexp with i, without the first slash', { id: { regexp: '^AP/i' } }, true],
  ['exists', { qty: { exists: true } }, true],
  ['exists of null', { note: { exists: true } }, true],
  ['exists of an absent member', { weight: { exists: true } }, false],
  ['not exists', { weight: { exists: false } }, true],
  ['null of null', { note: null }, true],
  ['null of an absent member', { weight: null }, true],
  ['null of a value', { qty: null }, false],
  ['null of an empty array', { none: null }, false],
  ['an element of an array', { tags: 'sweet' }, true],
  ['a number in an array', { tags: { gt: 6 } }, true],
  ['an element of an array in an array', { tags: 'deep' }, false],
  ['neq of an element', { tags: { neq: 'red' } }, false],
  ['neq and an empty array', { none: { neq: 'red' } }, true],
  ['a path', { 'grower.name': 'Ueda' }, true],
  ['a path with a space', { 'grower.odd name': 1 }, true],
  ['a path into a text', { 'id.length': 5 }, false],
  ['a path that is not the object’s own', { 'grower.toString': { exists: true } }, false],
  ['a path through an array', { 'lots.n': 9 }, true],
  ['two operators, each true for another element', { 'lots.n': { gt: 5, lt: 5 } }, true],
  ['between, if no element is between the bounds', { 'lots.n': { between: [2, 8] } }, false],
  ['null if some elements have the member', { 'lots.at': null }, false],
  ['neq of an object', { grower: { neq: 'Ueda' } }, true],
  ['or', { or: [{ qty: 1 }, { id: 'apple' }] }, true],
  ['and', { and: [{ qty: 5 }, { id: 'pear' }] }, false],
  ['fields next to or', { qty: 5, or: [{ id: 'pear' }, { organic: true }] }, true],
  ['no conditions', {}, true],
])('evaluates the condition: %s', (_, where, expected) => {
  expect(matchesJson(where, apple)).toBe(expected)
})

it('compares texts in the order of their UTF-8 bytes, unlike JavaScript’s <', () => {
  const text = fc.string({
    unit: fc.constantFrom('a', 'b', 'é', '\ue000', '\uffff', '🍎', '\u{10ffff}'),
  })
  fc.assert(
    fc.property(text, text, (one, other) => {
      const bytes = Buffer.compare(Buffer.from(one), Buffer.from(other))
      expect(Math.sign(compareTexts(one, other))).toBe(bytes)
      // A shortened text never ends with half of a surrogate pair.
      expect(sortText(one + 'x'.repeat(300)).isWellFormed()).toBe(true)
    }),
  )
  // Code points at the edges of the surrogate range, and code points whose pairs differ only in the second unit.
  const edges = [0xd7ff, 0xe000, 0xffff, 0x10000, 0x103fe, 0x103ff, 0x10400, 0x10fffe, 0x10ffff]
  const sorted = edges.map((point) => String.fromCodePoint(point))
  expect(sorted.toReversed().sort(compareTexts)).toEqual(sorted)
  expect('🍎' < '\uffff').toBe(true)
  expect(compareTexts('🍎', '\uffff')).toBeGreaterThan(0)
  expect(sortText(`${'a'.repeat(255)}🍎`)).toBe('a'.repeat(255))
})

it('sorts by type, then by value, with arrays and objects last', () => {
  const sorted: SortValue[] = [null, false, true, -1, 0.5, 3, '', 'a', 'b', COMPOUND]
  for (const [i, one] of sorted.entries()) {
    for (const [j, other] of sorted.entries()) {
      expect(Math.sign(compareSortValues(one, other))).toBe(Math.sign(i - j))
    }
  }
  const order = parseFilter({ 'filter[order]': 'a DESC, b.c' })?.order ?? []
  const rows = [
    { a: 1, b: { c: 2 } },
    { a: 2 },
    { a: 1, b: { c: 1 } },
    { a: [9] },
    { b: [{ c: 0 }] },
  ]
  const by = rows.map((row) => ({ row, values: toSortValues(order, row) }))
  by.sort((one, other) => compareByOrder(order, one.values, other.values))
  expect(by.map(({ row }) => row)).toEqual([rows[3], rows[1], rows[2], rows[0], rows[4]])
  expect(sortValueAt({ b: [{ c: 0 }] }, ['b', 'c'])).toBe(COMPOUND)
})

it('returns only the named members, or all except the named members, in their original order', () => {
  const fields = (query: Record<string, string>) =>
    parseFilter(query)?.fields ?? { kind: 'only', names: [] }
  const item = { c: 1, a: 2, b: 3 }
  expect(JSON.stringify(projected(item, fields({ filter: '{"fields":["a","c","x"]}' })))).toBe(
    '{"c":1,"a":2}',
  )
  expect(projected(item, fields({ 'filter[fields][a]': 'false' }))).toEqual({ c: 1, b: 3 })
})
