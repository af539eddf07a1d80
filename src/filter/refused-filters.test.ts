import fc from 'fast-check'
import { expect, it } from 'vitest'
import { roundsOf } from '../../test/support/rounds.ts'
import type { Json } from '../base/json.ts'
import { brackets, json, refusal } from './contract/test-filter.ts'
import { FILTER_LIMITS, FilterError, statusOfFilter } from './filter.ts'
import { parseFilter } from './read-filter.ts'

/** An expected result: `taken` for an accepted filter, or an error code and the JSON pointer to the error. */
const CASES = /^(?:taken|FILTER_[A-Z_]+ (?:\/.*)?)$/s

it.each<[string, unknown, string]>([
  ['a list', [], 'FILTER_MALFORMED '],
  ['an unknown member', { wehre: {} }, 'FILTER_UNKNOWN /wehre'],
  ['an unknown operator', { where: { a: { lx: 1 } } }, 'FILTER_UNKNOWN /where/a/lx'],
  ['no operator', { where: { a: {} } }, 'FILTER_MALFORMED /where/a'],
  ['a list as a value', { where: { a: [1] } }, 'FILTER_VALUE_WRONG /where/a'],
  ['an object as a value', { where: { a: { eq: { b: 1 } } } }, 'FILTER_VALUE_WRONG /where/a/eq'],
  ['an invalid condition', { where: 'a' }, 'FILTER_MALFORMED /where'],
  ['an `and` that is not a list', { where: { and: { a: 1 } } }, 'FILTER_MALFORMED /where/and'],
  ['an empty `or`', { where: { or: [] } }, 'FILTER_MALFORMED /where/or'],
  ['an invalid element of `or`', { where: { or: [{ a: 1 }, 5] } }, 'FILTER_MALFORMED /where/or/1'],
  ['`inq` with a number', { where: { a: { inq: 1 } } }, 'FILTER_MALFORMED /where/a/inq'],
  ['`inq` with a text', { where: { a: { inq: 'x' } } }, 'FILTER_MALFORMED /where/a/inq'],
  [
    '`between` with one bound',
    { where: { a: { between: [1] } } },
    'FILTER_VALUE_WRONG /where/a/between',
  ],
  [
    '`between` with bounds of two types',
    { where: { a: { between: [1, 'b'] } } },
    'FILTER_VALUE_WRONG /where/a/between',
  ],
  ['`lt` with null', { where: { a: { lt: null } } }, 'FILTER_VALUE_WRONG /where/a/lt'],
  ['`exists` with a number', { where: { a: { exists: 1 } } }, 'FILTER_VALUE_WRONG /where/a/exists'],
  ['a broken pattern', { where: { a: { regexp: '(' } } }, 'FILTER_PATTERN_WRONG /where/a/regexp'],
  [
    'a pattern that is not a text',
    { where: { a: { like: 5 } } },
    'FILTER_VALUE_WRONG /where/a/like',
  ],
  ['an empty path', { where: { '': 1 } }, 'FILTER_MALFORMED /where/'],
  ['an empty name in a path', { where: { 'a..b': 1 } }, 'FILTER_MALFORMED /where/a..b'],
  ['limit 0', { limit: 0 }, 'FILTER_VALUE_WRONG /limit'],
  ['a `limit` that is a text', { limit: '5' }, 'FILTER_VALUE_WRONG /limit'],
  ['offset -1', { offset: -1 }, 'FILTER_VALUE_WRONG /offset'],
  ['a huge offset', { offset: 1e300 }, 'FILTER_VALUE_WRONG /offset'],
  ['`offset` together with `skip`', { offset: 1, skip: 1 }, 'FILTER_MALFORMED /skip'],
  ['an order that is a number', { order: [1] }, 'FILTER_VALUE_WRONG /order/0'],
  ['an order with an unknown direction', { order: 'a UP' }, 'FILTER_VALUE_WRONG /order'],
  [
    'fields both included and excluded',
    { fields: { a: true, b: false } },
    'FILTER_VALUE_WRONG /fields',
  ],
  ['an empty list of fields', { fields: [] }, 'FILTER_VALUE_WRONG /fields'],
  [
    '`include` where items have no relationships',
    { include: 'resolve' },
    'FILTER_VALUE_WRONG /include',
  ],
  [
    'a path of nine names',
    { where: { 'a.a.a.a.a.a.a.a.a': 1 } },
    'FILTER_TOO_LARGE /where/a.a.a.a.a.a.a.a.a',
  ],
])('rejects %s, with a pointer to the error', (_, filter, expected) => {
  expect(refusal(() => json(filter))).toBe(expected)
})

it.each([
  ['filter=%7B', 'FILTER_MALFORMED '],
  ['filter={"limit":1}&filter[limit]=1', 'FILTER_MALFORMED '],
  ['filter={"limit":1}&filter={"limit":1}', 'FILTER_MALFORMED '],
  ['filter={"limit":1,"limit":2}', 'FILTER_MALFORMED '],
  ['filter[', 'FILTER_MALFORMED '],
  ['filter[]=x', 'FILTER_MALFORMED /'],
  ['filter[where]x=1', 'FILTER_MALFORMED '],
  ['filter[where][[a]]=1', 'FILTER_MALFORMED '],
  ['filter[where][][a]=1', 'FILTER_MALFORMED /where//a'],
  ['filter[where][a]=1&filter[where][a][lt]=2', 'FILTER_MALFORMED /where/a/lt'],
  ['filter[where][a][lt]=1&filter[where][a]=2', 'FILTER_MALFORMED /where/a'],
  ['filter[where][a]=1&filter[where][a]=2', 'FILTER_VALUE_WRONG /where/a'],
  ['filter[limit]=5&filter[limit]=6', 'FILTER_VALUE_WRONG /limit'],
  ['filter[limit]=1e1', 'FILTER_VALUE_WRONG /limit'],
  ['filter[limit]=99999999999999999', 'FILTER_VALUE_WRONG /limit'],
  ['filter[where][a][inq][x]=1', 'FILTER_MALFORMED /where/a/inq'],
  ['filter[where][a][inq][x1]=1', 'FILTER_MALFORMED /where/a/inq'],
  ['filter[where][a][inq][1x]=1', 'FILTER_MALFORMED /where/a/inq'],
  ['filter[where][a][inq][1234567]=1', 'FILTER_MALFORMED /where/a/inq'],
  ['filter[where][a][exists]=maybe', 'FILTER_VALUE_WRONG /where/a/exists'],
])('rejects the query %s', (query, expected) => {
  expect(refusal(() => brackets(query))).toBe(expected)
})

it('accepts a filter at each limit, and rejects a filter one above the limit', () => {
  const conditions = (count: number) => ({
    where: Object.fromEntries(Array.from({ length: count }, (_, n) => [`f${n}`, 1])),
  })
  const patterns = (count: number) => ({
    where: { and: Array.from({ length: count }, () => ({ a: { like: 'x%' } })) },
  })
  const nested = (depth: number): unknown => (depth === 0 ? { a: 1 } : { and: [nested(depth - 1)] })
  const values = (count: number) => ({ where: { a: { inq: new Array(count).fill(1) } } })
  const order = (count: number) => ({ order: new Array(count).fill('a').join(',') })
  const fields = (count: number) => ({ fields: new Array(count).fill('a') })
  const cases: [(count: number) => unknown, number][] = [
    [conditions, FILTER_LIMITS.conditions],
    [patterns, FILTER_LIMITS.patterns],
    [(depth) => ({ where: nested(depth) }), FILTER_LIMITS.depth],
    [values, FILTER_LIMITS.values],
    [order, FILTER_LIMITS.orderTerms],
    [fields, FILTER_LIMITS.fields],
    [(length) => ({ where: { a: 'x'.repeat(length - 18) } }), FILTER_LIMITS.characters],
    [(length) => ({ where: { ['p'.repeat(length)]: 1 } }), FILTER_LIMITS.pathCharacters],
  ]
  for (const [make, max] of cases) {
    expect(refusal(() => json(make(max)))).toBe('taken')
    expect(refusal(() => json(make(max + 1)))).toMatch(/^FILTER_TOO_LARGE/)
  }
  expect(refusal(() => brackets(`filter[where]${'[and][0]'.repeat(30)}[a]=1`))).toMatch(
    /^FILTER_TOO_LARGE/,
  )
  expect(refusal(() => brackets(`filter[where][a]=${'x'.repeat(20_000)}`))).toMatch(
    /^FILTER_TOO_LARGE/,
  )
})

it('accepts any input or rejects it with a code and a pointer', () => {
  const name = fc.constantFrom(
    'where',
    'and',
    'or',
    'a',
    'b.c',
    'lt',
    'inq',
    'like',
    'regexp',
    'exists',
    'limit',
    'order',
    'fields',
    '0',
    '1',
    '',
    '__proto__',
    'constructor',
  )
  const leaf = fc.oneof(fc.constantFrom('1', 'true', 'null', '(', '%', 'a DESC'), fc.string())
  const query = fc.array(fc.tuple(fc.array(name, { maxLength: 6 }), leaf), { maxLength: 6 })
  fc.assert(
    fc.property(query, (parameters) => {
      const given = Object.fromEntries(
        parameters.map(([parts, value]) => [
          `filter${parts.map((part) => `[${part}]`).join('')}`,
          value,
        ]),
      )
      expect(refusal(() => parseFilter(given))).toMatch(CASES)
    }),
    { numRuns: roundsOf(2_000) },
  )
  const tree = fc.letrec<{ node: Json }>((tie) => ({
    node: fc.oneof(
      { depthSize: 'small' },
      fc.oneof(fc.constant(null), fc.boolean(), fc.integer(), leaf),
      fc.array(tie('node'), { maxLength: 3 }),
      fc.dictionary(name, tie('node'), { maxKeys: 4 }),
    ),
  })).node
  fc.assert(
    fc.property(tree, (filter) => {
      expect(refusal(() => json(filter))).toMatch(CASES)
    }),
    { numRuns: roundsOf(2_000) },
  )
})

it('accepts the deepest filter in bracket form, and rejects 22 pairs of brackets', () => {
  const deepest = `filter[where]${'[and][0]'.repeat(FILTER_LIMITS.depth)}[a][inq][0]=x`
  expect(refusal(() => brackets(deepest))).toBe('taken')
  const reasonOf = (count: number) => {
    try {
      brackets(`filter[where]${'[a]'.repeat(count - 1)}=x`)
      return 'taken'
    } catch (error) {
      return error instanceof FilterError ? error.reason : String(error)
    }
  }
  expect(reasonOf(21)).not.toContain('brackets')
  expect(reasonOf(22)).toBe('more than 21 brackets')
})

it('reports an invalid path of the maximum length as malformed, not as too long', () => {
  const { pathCharacters, pathSteps } = FILTER_LIMITS
  for (const path of [
    ...[`${'a'.repeat(pathCharacters - 1)}.`, `${'a.'.repeat(pathSteps - 1)}`],
    ...['\u001f', 'a\u0000'],
  ]) {
    expect(
      refusal(() => json({ where: { [path]: 1 } })),
      path,
    ).toMatch(/^FILTER_MALFORMED/)
  }
  for (const path of ['a'.repeat(pathCharacters), `${'a.'.repeat(pathSteps - 1)}a`, ' ']) {
    expect(
      refusal(() => json({ where: { [path]: 1 } })),
      path,
    ).toBe('taken')
  }
})

it('the message of each error states the cause, and its status is 400', () => {
  const messageOf = (read: () => unknown) => {
    try {
      read()
    } catch (error) {
      if (error instanceof FilterError) return [statusOfFilter[error.code], error.message]
      throw error
    }
    return null
  }
  const cases: [() => unknown, string][] = [
    [() => parseFilter({ filter: '{' }), 'filter: it is not JSON'],
    [() => json([]), 'filter: it is not a JSON object'],
    [() => json({ where: { a: { like: 5 } } }), 'filter/where/a/like: must be a pattern'],
    [() => json({ limit: 0 }), 'filter/limit: must be an integer, 1 or more'],
    [() => json({ where: { 'a/b~': {} } }), 'filter/where/a~1b~0: no operator is given'],
    [() => json({ where: { a: { lt: null } } }), 'filter/where/a/lt: must be a number or a text'],
  ]
  for (const [read, message] of cases) {
    expect(messageOf(read)).toEqual([400, expect.stringContaining(message)])
  }
  expect(new Set(Object.values(statusOfFilter))).toEqual(new Set([400]))
})
