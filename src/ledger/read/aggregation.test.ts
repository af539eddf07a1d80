import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { JsonObject } from '../../base/json.ts'
import { AGGREGATION_LIMITS, Aggregation, aggregationQuery, type Group } from './aggregation.ts'

type Lists = Parameters<typeof aggregationQuery>[1]

function aggregate(items: readonly JsonObject[], lists: Lists): Group[] {
  const aggregation = new Aggregation(aggregationQuery(null, lists))
  for (const item of items) aggregation.add(item)
  return aggregation.result()
}

const SALES: JsonObject[] = [
  { city: 'Oslo', year: 2024, amount: 10, name: 'b' },
  { city: 'Oslo', year: 2025, amount: 2.5, name: 'a' },
  { city: 'Bergen', year: 2024, amount: 'unknown', name: 'c' },
  { city: 'Oslo', year: 2024, amount: 0.5, name: 7 },
  { year: 2024, amount: [1], name: null },
]

it('returns the count, sum, average, minimum and maximum of each group, in the order of the groups', () => {
  const result = aggregate(SALES, {
    group: 'city',
    sum: 'amount',
    avg: 'amount',
    min: 'name',
    max: 'name,amount',
  })
  expect(JSON.stringify(result, null, 1).replaceAll(/\n */g, '')).toBe(
    JSON.stringify([
      {
        ...{ group: { city: null }, count: 1, sum: { amount: null }, avg: { amount: null } },
        ...{ min: { name: null }, max: { name: null, amount: null } },
      },
      {
        ...{ group: { city: 'Bergen' }, count: 1, sum: { amount: null }, avg: { amount: null } },
        ...{ min: { name: 'c' }, max: { name: 'c', amount: 'unknown' } },
      },
      {
        ...{ group: { city: 'Oslo' }, count: 3, sum: { amount: 13 }, avg: { amount: 13 / 3 } },
        ...{ min: { name: 7 }, max: { name: 'b', amount: 10 } },
      },
    ]).replaceAll(/(":)/g, '$1 '),
  )
})

it('groups by two members, with their paths as keys', () => {
  const items = [
    { at: { town: 'a' }, n: 1 },
    { at: { town: 'a' }, n: true },
    { at: [{ town: 'a' }] },
  ]
  expect(aggregate(items, { group: 'at.town, n' })).toEqual([
    { group: { 'at.town': null, n: null }, count: 1 },
    { group: { 'at.town': 'a', n: true }, count: 1 },
    { group: { 'at.town': 'a', n: 1 }, count: 1 },
  ])
})

it('returns one group if `group` is absent, even if there are no items', () => {
  expect(aggregate([], { sum: 'n' })).toEqual([{ group: {}, count: 0, sum: { n: null } }])
  expect(aggregate([], { group: 'n' })).toEqual([])
  expect(aggregate([{ n: 1 }, { n: 2 }], { sum: 'n' })).toEqual([
    { group: {}, count: 2, sum: { n: 3 } },
  ])
})

it('treats members with names of built-in properties, such as `__proto__`, as ordinary members', () => {
  const item = JSON.parse('{"__proto__":5,"toString":2}')
  const [group] = aggregate([item], { group: '__proto__', sum: '__proto__,toString,valueOf' })
  expect(JSON.stringify(group)).toBe(
    '{"group":{"__proto__":5},"count":1,"sum":{"__proto__":5,"toString":2,"valueOf":null}}',
  )
})

it('rejects more groups than the limit, and a sum beyond the range of JSON numbers', () => {
  const { groups } = AGGREGATION_LIMITS
  const numbered = Array.from({ length: groups }, (_, n) => ({ n }))
  expect(aggregate([...numbered, { n: 0 }], { group: 'n' })).toHaveLength(groups)
  const tooMany = () => aggregate([...numbered, { n: -1 }], { group: 'n' })
  expect(tooMany).toThrow(expect.objectContaining({ code: 'GROUPS_TOO_MANY' }))
  const huge = () => aggregate([{ n: 1e308 }, { n: 1e308 }], { avg: 'n' })
  expect(huge).toThrow(expect.objectContaining({ code: 'SUM_TOO_LARGE' }))
})

it('returns whole texts, and does not merge groups that differ only after many characters', () => {
  const [a, b] = [`${'x'.repeat(300)}a`, `${'x'.repeat(300)}b`]
  const items = [
    { g: a, v: a },
    { g: a, v: b },
    { g: b, v: a },
  ]
  expect(aggregate(items, { group: 'g', min: 'v', max: 'v' })).toEqual([
    { group: { g: a }, count: 2, min: { v: a }, max: { v: b } },
    { group: { g: b }, count: 1, min: { v: a }, max: { v: a } },
  ])
  const long = Array.from({ length: 3 }, (_, n) => ({ n, v: 'x'.repeat(6 * 1024 * 1024) }))
  expect(aggregate(long, { max: 'v' })).toHaveLength(1)
  const texts = () => aggregate(long, { group: 'n', max: 'v' })
  expect(texts).toThrow(expect.objectContaining({ code: 'GROUPS_TOO_MANY' }))
})

it('rejects malformed paths, repeated paths and too many paths', () => {
  const path = (n: number) => Array.from({ length: n }, (_, at) => `p${at}`).join(',')
  expect(aggregationQuery(null, { sum: path(8), max: path(8) }).functions).toHaveLength(16)
  const wrong: Lists[] = [
    { group: 'a,b,c' },
    { group: 'a,a' },
    { sum: '' },
    { sum: 'a,' },
    { avg: 'a..b' },
    { min: 'a.b.c.d.e.f.g.h.i' },
    { sum: path(9), max: path(8) },
  ]
  for (const lists of wrong) {
    expect(() => aggregationQuery(null, lists), JSON.stringify(lists)).toThrow(
      expect.objectContaining({ code: 'AGGREGATION_INVALID' }),
    )
  }
})

it('returns the same results as a simple reference computation, for any order of the items', () => {
  const scalar = fc.constantFrom('a', 'b', 'é', null, true, 0, 1, -2)
  const item = fc.record(
    { g: scalar, h: scalar, v: fc.oneof(scalar, fc.integer()) },
    { requiredKeys: [] },
  )
  fc.assert(
    fc.property(fc.array(item, { maxLength: 30 }), (items) => {
      const groups = aggregate(items, { group: 'g,h', sum: 'v', avg: 'v', min: 'v', max: 'v' })
      expect(
        aggregate(items.toReversed(), { group: 'g,h', sum: 'v', avg: 'v', min: 'v', max: 'v' }),
      ).toEqual(groups)
      const members = (group: Group) =>
        items.filter(({ g = null, h = null }) => g === group.group.g && h === group.group.h)
      expect(groups.reduce((sum, { count }) => sum + count, 0)).toBe(items.length)
      for (const group of groups) {
        const values = members(group).map(({ v }) => v)
        const numbers = values.filter((value) => typeof value === 'number')
        const texts = values.filter((value) => typeof value === 'string').sort()
        const sum = numbers.length === 0 ? null : numbers.reduce((all, each) => all + each, 0)
        const average = sum === null ? null : sum / numbers.length
        expect(group).toEqual({
          group: group.group,
          count: values.length,
          sum: { v: sum },
          avg: { v: average },
          min: { v: numbers.length > 0 ? Math.min(...numbers) : (texts.at(0) ?? null) },
          max: { v: texts.at(-1) ?? (numbers.length > 0 ? Math.max(...numbers) : null) },
        })
      }
    }),
  )
})
