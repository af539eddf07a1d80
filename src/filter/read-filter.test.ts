import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Json } from '../base/json.ts'
import { FilterError, statusOfFilter } from './errors.ts'
import { FIELD_TYPES, type FieldType, type TypeOf } from './field-type.ts'
import { FILTER_LIMITS, type Filter } from './filter.ts'
import { type FilterOptions, filterOf } from './read-filter.ts'

const json = (filter: unknown, options?: FilterOptions) =>
  filterOf({ filter: JSON.stringify(filter) }, options)
const brackets = (query: string, options?: FilterOptions) => {
  const parameters: Record<string, string | string[]> = {}
  for (const [name, value] of new URLSearchParams(query)) {
    parameters[name] = name in parameters ? [parameters[name] ?? '', value].flat() : value
  }
  return filterOf(parameters, options)
}
const refusal = (read: () => unknown) => {
  try {
    read()
  } catch (error) {
    if (error instanceof FilterError) return `${error.code} ${error.pointer}`
    throw error
  }
  return 'taken'
}
const nothing: Filter = {
  where: null,
  order: [],
  limit: null,
  offset: null,
  fields: null,
  resolve: false,
}
const equals = (path: string, ...values: (string | number | boolean | null)[]) => ({
  kind: 'condition',
  path: path.split('.'),
  negated: false,
  test: { kind: 'equals', values },
})

it('without a filter there is none, and other parameters are passed over', () => {
  expect(filterOf({ limit: 5, filters: 'x', docs: 'true' })).toBeNull()
})

it('reads the form of the specification: where with an operator, limit and offset, alone and together', () => {
  expect(brackets('filter[limit]=3')).toEqual({ ...nothing, limit: 3 })
  expect(brackets('filter[offset]=0')).toEqual({ ...nothing, offset: 0 })
  expect(brackets('filter[skip]=4')).toEqual({ ...nothing, offset: 4 })
  expect(brackets('filter[where][quantity][lt]=5&filter[limit]=3&filter[offset]=2')).toEqual({
    ...nothing,
    where: {
      kind: 'condition',
      path: ['quantity'],
      negated: false,
      test: { kind: 'range', from: null, to: { value: 5, inclusive: false } },
    },
    limit: 3,
    offset: 2,
  })
})

it('brackets and JSON spell the same', () => {
  const pairs: [string, unknown][] = [
    [
      'filter[where][or][1][b]=y&filter[where][or][0][a]=x',
      { where: { or: [{ a: 'x' }, { b: 'y' }] } },
    ],
    [
      'filter[where][and][0][a][neq]=x&filter[where][and][0][b]=y',
      { where: { and: [{ a: { neq: 'x' }, b: 'y' }] } },
    ],
    ['filter[where][a][inq][]=x&filter[where][a][inq][]=y', { where: { a: { inq: ['x', 'y'] } } }],
    ['filter[where][a][inq]=x', { where: { a: { inq: ['x'] } } }],
    [
      'filter[where][a][between][0]=1&filter[where][a][between][1]=2',
      { where: { a: { between: [1, 2] } } },
    ],
    ['filter[where][a.b][exists]=false', { where: { 'a.b': { exists: false } } }],
    ['filter[order]=a DESC', { order: ['a DESC'] }],
    ['filter[order][0]=a desc&filter[order][1]=b', { order: 'a DESC, b ASC' }],
    ['filter[fields]=a&filter[fields]=b', { fields: ['a', 'b'] }],
    ['filter[fields][0]=a&filter[fields][1]=b', { fields: { a: true, b: true } }],
    ['filter[fields][a]=false', { fields: { a: false } }],
    ['filter[where][a][regexp]=^x', { where: { a: { regexp: '^x' } } }],
    ['filter[where][__proto__][x]=1', { where: { y: 1 } }],
  ]
  for (const [query, filter] of pairs.slice(0, -1))
    expect(brackets(query), query).toEqual(json(filter))
  expect(refusal(() => brackets('filter[where][__proto__][x]=1'))).toBe(
    'FILTER_UNKNOWN /where/__proto__/x',
  )
})

it('a text in brackets is itself, and what JSON reads in it; ranges take a number where it is one', () => {
  const where = (query: string) => brackets(query)?.where
  expect(where('filter[where][a]=5')).toEqual(equals('a', 5, '5'))
  expect(where('filter[where][a]=05')).toEqual(equals('a', '05'))
  expect(where('filter[where][a]=true')).toEqual(equals('a', true, 'true'))
  expect(where('filter[where][a]=null')).toEqual(equals('a', null, 'null'))
  expect(where('filter[where][a]=-0')).toEqual(equals('a', 0, '-0'))
  expect(where('filter[where][a]=1e999')).toEqual(equals('a', '1e999'))
  expect(where('filter[where][a][gt]=b5')).toMatchObject({ test: { from: { value: 'b5' } } })
  expect(json({ where: { a: '5' } })?.where).toEqual(equals('a', '5'))
})

describe('with a model', () => {
  const types: Record<string, FieldType> = {
    name: FIELD_TYPES.text,
    qty: FIELD_TYPES.number,
    count: FIELD_TYPES.integer,
    open: FIELD_TYPES.boolean,
    born: FIELD_TYPES.dateTime,
    owner: FIELD_TYPES.compound,
    'owner.name': FIELD_TYPES.text,
  }
  const typeOf: TypeOf = (path) => types[path.join('.')]
  const options = { typeOf, mayResolve: true }

  it('the type decides what a text stands for', () => {
    expect(brackets('filter[where][name]=5', options)?.where).toEqual(equals('name', '5'))
    expect(brackets('filter[where][qty]=5', options)?.where).toEqual(equals('qty', 5))
    expect(brackets('filter[where][open]=true', options)?.where).toEqual(equals('open', true))
    expect(brackets('filter[where][qty]=null', options)?.where).toEqual(equals('qty', null))
    const born = equals('born', '2026-01-02T00:00:00.000Z')
    expect(brackets('filter[where][born]=2026-01-02', options)?.where).toEqual(born)
    expect(json({ where: { born: '2026-01-02T01:00:00+01:00' } }, options)?.where).toEqual(born)
    expect(json({ include: 'resolve' }, options)?.resolve).toBe(true)
    expect(json({ where: { owner: { exists: true } } }, options)?.where).not.toBeNull()
  })

  it('integers have an order, and are integers', () => {
    const above = (value: number) => ({
      ...{ kind: 'condition', path: ['count'], negated: false },
      test: { kind: 'range', from: { value, inclusive: false }, to: null },
    })
    expect(json({ where: { count: { gt: 3 } } }, options)?.where).toEqual(above(3))
    expect(brackets('filter[where][count][gt]=3', options)?.where).toEqual(above(3))
    expect(refusal(() => brackets('filter[where][count]=3.5', options))).toBe(
      'FILTER_VALUE_WRONG /where/count',
    )
    expect(refusal(() => brackets('filter[where][open]=yes', options))).toBe(
      'FILTER_VALUE_WRONG /where/open',
    )
    expect(brackets('filter[where][open]=false', options)?.where).toEqual(equals('open', false))
  })

  it.each<[string, unknown, string]>([
    ['an unknown field', { where: { nmae: 'x' } }, 'FILTER_FIELD_UNKNOWN /where/nmae'],
    ['an unknown path', { where: { 'owner.nmae': 'x' } }, 'FILTER_FIELD_UNKNOWN /where/owner.nmae'],
    ['an unknown field to order by', { order: 'nmae' }, 'FILTER_FIELD_UNKNOWN /order'],
    ['an unknown field to show', { fields: ['nmae'] }, 'FILTER_FIELD_UNKNOWN /fields'],
    ['a text for a number', { where: { qty: { lt: 'many' } } }, 'FILTER_VALUE_WRONG /where/qty/lt'],
    ['a number for a text', { where: { name: 5 } }, 'FILTER_VALUE_WRONG /where/name'],
    [
      'half an integer',
      { where: { count: { inq: [1, 1.5] } } },
      'FILTER_VALUE_WRONG /where/count/inq/1',
    ],
    [
      'an order of booleans',
      { where: { open: { gt: false } } },
      'FILTER_VALUE_WRONG /where/open/gt',
    ],
    [
      'a pattern for a number',
      { where: { qty: { like: '5%' } } },
      'FILTER_VALUE_WRONG /where/qty/like',
    ],
    ['no date', { where: { born: 'yesterday' } }, 'FILTER_VALUE_WRONG /where/born'],
    ['a date in words', { where: { born: '1 May 2026' } }, 'FILTER_VALUE_WRONG /where/born'],
    ['half a date', { where: { born: '2026-01' } }, 'FILTER_VALUE_WRONG /where/born'],
    [
      'a date with more behind',
      { where: { born: '2026-01-02 x' } },
      'FILTER_VALUE_WRONG /where/born',
    ],
    ['a month that is none', { where: { born: '2026-13-01' } }, 'FILTER_VALUE_WRONG /where/born'],
    ['a number for a date', { where: { born: 2026 } }, 'FILTER_VALUE_WRONG /where/born'],
    ['a text for a boolean', { where: { open: 'true' } }, 'FILTER_VALUE_WRONG /where/open'],
    ['less than an object', { where: { owner: { lt: 1 } } }, 'FILTER_VALUE_WRONG /where/owner/lt'],
    [
      'a pattern for an integer',
      { where: { count: { like: '5' } } },
      'FILTER_VALUE_WRONG /where/count/like',
    ],
    ['a value of an object', { where: { owner: 'x' } }, 'FILTER_VALUE_WRONG /where/owner'],
    ['something else to include', { include: ['owner'] }, 'FILTER_VALUE_WRONG /include'],
  ])('refuses %s', (_, filter, expected) => {
    expect(refusal(() => json(filter, options))).toBe(expected)
  })
})

it.each<[string, unknown, string]>([
  ['a list', [], 'FILTER_MALFORMED '],
  ['an unknown member', { wehre: {} }, 'FILTER_UNKNOWN /wehre'],
  ['an unknown operator', { where: { a: { lx: 1 } } }, 'FILTER_UNKNOWN /where/a/lx'],
  ['no operator', { where: { a: {} } }, 'FILTER_MALFORMED /where/a'],
  ['a list as a value', { where: { a: [1] } }, 'FILTER_VALUE_WRONG /where/a'],
  ['an object as a value', { where: { a: { eq: { b: 1 } } } }, 'FILTER_VALUE_WRONG /where/a/eq'],
  ['a condition that is none', { where: 'a' }, 'FILTER_MALFORMED /where'],
  ['and of no list', { where: { and: { a: 1 } } }, 'FILTER_MALFORMED /where/and'],
  ['or of nothing', { where: { or: [] } }, 'FILTER_MALFORMED /where/or'],
  [
    'an element of or that is none',
    { where: { or: [{ a: 1 }, 5] } },
    'FILTER_MALFORMED /where/or/1',
  ],
  ['inq of no list', { where: { a: { inq: 1 } } }, 'FILTER_MALFORMED /where/a/inq'],
  ['inq of a text', { where: { a: { inq: 'x' } } }, 'FILTER_MALFORMED /where/a/inq'],
  ['between of one', { where: { a: { between: [1] } } }, 'FILTER_VALUE_WRONG /where/a/between'],
  [
    'between of two types',
    { where: { a: { between: [1, 'b'] } } },
    'FILTER_VALUE_WRONG /where/a/between',
  ],
  ['less than null', { where: { a: { lt: null } } }, 'FILTER_VALUE_WRONG /where/a/lt'],
  ['exists of a number', { where: { a: { exists: 1 } } }, 'FILTER_VALUE_WRONG /where/a/exists'],
  ['a broken pattern', { where: { a: { regexp: '(' } } }, 'FILTER_PATTERN_WRONG /where/a/regexp'],
  ['a pattern that is no text', { where: { a: { like: 5 } } }, 'FILTER_VALUE_WRONG /where/a/like'],
  ['an empty path', { where: { '': 1 } }, 'FILTER_MALFORMED /where/'],
  ['an empty name in a path', { where: { 'a..b': 1 } }, 'FILTER_MALFORMED /where/a..b'],
  ['limit 0', { limit: 0 }, 'FILTER_VALUE_WRONG /limit'],
  ['limit of a text', { limit: '5' }, 'FILTER_VALUE_WRONG /limit'],
  ['offset -1', { offset: -1 }, 'FILTER_VALUE_WRONG /offset'],
  ['a huge offset', { offset: 1e300 }, 'FILTER_VALUE_WRONG /offset'],
  ['offset and skip', { offset: 1, skip: 1 }, 'FILTER_MALFORMED /skip'],
  ['an order of numbers', { order: [1] }, 'FILTER_VALUE_WRONG /order/0'],
  ['an order without a direction', { order: 'a UP' }, 'FILTER_VALUE_WRONG /order'],
  ['fields of both kinds', { fields: { a: true, b: false } }, 'FILTER_VALUE_WRONG /fields'],
  ['no fields', { fields: [] }, 'FILTER_VALUE_WRONG /fields'],
  ['include where nothing is related', { include: 'resolve' }, 'FILTER_VALUE_WRONG /include'],
  [
    'a path of nine',
    { where: { 'a.a.a.a.a.a.a.a.a': 1 } },
    'FILTER_TOO_LARGE /where/a.a.a.a.a.a.a.a.a',
  ],
])('refuses %s, and points at it', (_, filter, expected) => {
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
])('refuses the query %s', (query, expected) => {
  expect(refusal(() => brackets(query))).toBe(expected)
})

it('has a bound for everything, taken at the edge and refused beyond', () => {
  const conditions = (count: number) => ({
    where: Object.fromEntries(Array.from({ length: count }, (_, n) => [`f${n}`, 1])),
  })
  const nested = (depth: number): unknown => (depth === 0 ? { a: 1 } : { and: [nested(depth - 1)] })
  const values = (count: number) => ({ where: { a: { inq: new Array(count).fill(1) } } })
  const order = (count: number) => ({ order: new Array(count).fill('a').join(',') })
  const fields = (count: number) => ({ fields: new Array(count).fill('a') })
  const cases: [(count: number) => unknown, number][] = [
    [conditions, FILTER_LIMITS.conditions],
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

it('whatever it is given it reads or refuses with a code and a pointer, and nothing else', () => {
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
      refusal(() => filterOf(given))
    }),
    { numRuns: 2_000 },
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
    fc.property(tree, (filter) => void refusal(() => json(filter))),
    { numRuns: 2_000 },
  )
})

it('every operator is read as the test that it stands for', () => {
  const value = (kind: string, more: object) => ({ kind, ...more })
  const five = (inclusive: boolean) => ({ value: 5, inclusive })
  const cases: [string, unknown, boolean, object][] = [
    ['eq', 5, false, value('equals', { values: [5] })],
    ['neq', 5, true, value('equals', { values: [5] })],
    ['gt', 5, false, value('range', { from: five(false), to: null })],
    ['gte', 5, false, value('range', { from: five(true), to: null })],
    ['lt', 5, false, value('range', { from: null, to: five(false) })],
    ['lte', 5, false, value('range', { from: null, to: five(true) })],
    ['between', [5, 5], false, value('range', { from: five(true), to: five(true) })],
    ['inq', [5, 6, 5], false, value('equals', { values: [5, 6] })],
    ['nin', [5], true, value('equals', { values: [5] })],
    ['like', 'a', false, { kind: 'pattern', pattern: { caseless: false } }],
    ['nlike', 'a', true, { kind: 'pattern', pattern: { caseless: false } }],
    ['ilike', 'a', false, { kind: 'pattern', pattern: { caseless: true } }],
    ['nilike', 'a', true, { kind: 'pattern', pattern: { caseless: true } }],
    ['regexp', 'a', false, { kind: 'pattern', pattern: { caseless: false } }],
    ['exists', true, false, { kind: 'exists' }],
    ['exists', false, true, { kind: 'exists' }],
  ]
  for (const [operator, operand, negated, test] of cases) {
    const where = json({ where: { a: { [operator]: operand } } })?.where
    expect(where, operator).toMatchObject({ kind: 'condition', path: ['a'], negated, test })
  }
  const negatedBy = (text: string) => brackets(`filter[where][a][exists]=${text}`)?.where
  for (const [text, negated] of [
    ...[['true', false] as const, ['1', false] as const],
    ...[['false', true] as const, ['0', true] as const],
  ]) {
    expect(negatedBy(text), text).toMatchObject({ negated })
  }
})

it('brackets go as deep as the deepest filter needs, and no further', () => {
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

it('a path of the longest length that is no path is malformed, not too long', () => {
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

it('says of each refusal what is wrong, as a mistake of the client', () => {
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
    [() => filterOf({ filter: '{' }), 'filter: it is not JSON'],
    [() => json([]), 'filter: it is not a JSON object'],
    [() => json({ where: { a: { like: 5 } } }), 'filter/where/a/like: must be a pattern'],
    [() => json({ limit: 0 }), 'filter/limit: must be an integer, 1 or more'],
    [() => json({ where: { 'a/b~': {} } }), 'filter/where/a~1b~0: no operator is given'],
    [
      () => json({ where: { a: { lt: null } } }),
      'filter/where/a/lt: must be of a type that has an order',
    ],
  ]
  for (const [read, message] of cases) {
    expect(messageOf(read)).toEqual([400, expect.stringContaining(message)])
  }
  expect(new Set(Object.values(statusOfFilter))).toEqual(new Set([400]))
})
