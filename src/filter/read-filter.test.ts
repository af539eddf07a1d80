import { describe, expect, it } from 'vitest'
import { brackets, json, refusal } from './contract/test-filter.ts'
import { FIELD_TYPES, type FieldType, type TypeOf } from './field-type.ts'
import type { Filter } from './filter.ts'
import { parseFilter } from './read-filter.ts'

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

it('returns null without a filter and ignores other parameters', () => {
  expect(parseFilter({ limit: 5, filters: 'x', docs: 'true' })).toBeNull()
})

it('reads `where` with operators, limit and offset in bracket form, alone and combined', () => {
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

it('reads brackets and JSON as the same filter', () => {
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
    ['filter[fields]=a,b', { fields: ['a', 'b'] }],
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

it('a value in bracket form matches its text and, if the text is JSON, also the JSON value; a range accepts text too', () => {
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

  it('the type of a field decides the meaning of a value in brackets', () => {
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

  it('accepts a range for an integer field; rejects a fraction for an integer field and a word for a boolean field', () => {
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
    ['an unknown name in `fields`', { fields: ['nmae'] }, 'FILTER_FIELD_UNKNOWN /fields'],
    ['a text for a number', { where: { qty: { lt: 'many' } } }, 'FILTER_VALUE_WRONG /where/qty/lt'],
    ['a number for a text', { where: { name: 5 } }, 'FILTER_VALUE_WRONG /where/name'],
    [
      'a fraction for an integer',
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
    [
      'a text that is not a date',
      { where: { born: 'yesterday' } },
      'FILTER_VALUE_WRONG /where/born',
    ],
    ['a date in words', { where: { born: '1 May 2026' } }, 'FILTER_VALUE_WRONG /where/born'],
    ['half a date', { where: { born: '2026-01' } }, 'FILTER_VALUE_WRONG /where/born'],
    ['a date with a suffix', { where: { born: '2026-01-02 x' } }, 'FILTER_VALUE_WRONG /where/born'],
    ['an invalid month', { where: { born: '2026-13-01' } }, 'FILTER_VALUE_WRONG /where/born'],
    ['a number for a date', { where: { born: 2026 } }, 'FILTER_VALUE_WRONG /where/born'],
    ['a text for a boolean', { where: { open: 'true' } }, 'FILTER_VALUE_WRONG /where/open'],
    ['`lt` for an object', { where: { owner: { lt: 1 } } }, 'FILTER_VALUE_WRONG /where/owner/lt'],
    [
      'a pattern for an integer',
      { where: { count: { like: '5' } } },
      'FILTER_VALUE_WRONG /where/count/like',
    ],
    [
      'a value for a field that is an object',
      { where: { owner: 'x' } },
      'FILTER_VALUE_WRONG /where/owner',
    ],
    ['an unknown value of `include`', { include: ['owner'] }, 'FILTER_VALUE_WRONG /include'],
  ])('a filter with a model rejects %s', (_, filter, expected) => {
    expect(refusal(() => json(filter, options))).toBe(expected)
  })
})

it('does not find the neighbours of a number in brackets that cannot be represented exactly', () => {
  const where = (text: string) => brackets(text)?.where
  expect(where('filter[where][n]=9007199254740993')).toMatchObject({
    test: { kind: 'equals', values: ['9007199254740993'] },
  })
  expect(where('filter[where][n]=9007199254740992')).toMatchObject({
    test: { kind: 'equals', values: [9007199254740992, '9007199254740992'] },
  })
  expect(where('filter[where][n]=0.1')).toMatchObject({ test: { values: [0.1, '0.1'] } })
  for (const operator of ['lt', 'gte']) {
    expect(() => where(`filter[where][n][${operator}]=9007199254740993`)).toThrow(
      'represented exactly',
    )
  }
})

it('parses every operator into its test, negated if necessary', () => {
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
