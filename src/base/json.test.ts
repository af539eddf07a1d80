import fc from 'fast-check'
import { expect, it } from 'vitest'
import { roundsOf } from '../../test/support/rounds.ts'
import { canonicalJson } from './canonical-json.ts'
import { isCount, type Json, parseJson } from './json.ts'
import { parseStrictText } from './strict-json.ts'

/** Member names that V8 can confuse with one another (see `parseJson`). */
const names = fc.constantFrom(
  '\\',
  '"',
  '\n',
  '\u0000',
  '\\u',
  '\\u0',
  'A',
  'AB',
  '\\\\',
  '\\"',
  '',
  'a',
  '__proto__',
)
const texts = fc.oneof(names, fc.constantFrom('{', ']', ',', ':', '":"', '\\":'), fc.string())
const values = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    texts,
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0),
    fc.constantFrom<Json>(null, true, false, 0, [], {}),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.array(fc.tuple(fc.oneof(names, fc.string()), tie('value')), { maxLength: 5 }).map(objectOf),
  ),
})).value

function objectOf(members: readonly (readonly [string, Json])[]): Json {
  return Object.fromEntries(members)
}

/**
 * Prints `value` as JSON. Escapes all characters of each name and string for which a call of `isEscaped` returns true.
 */
function written(value: Json, isEscaped: () => boolean, space: string): string {
  const text = (of: string) => {
    const units = Array.from({ length: of.length }, (_, at) => of.charCodeAt(at))
    const escaped = units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
    return isEscaped() ? `"${escaped}"` : JSON.stringify(of)
  }
  const of = (each: Json): string => {
    if (typeof each === 'string') return text(each)
    if (Array.isArray(each)) return `[${space}${each.map(of).join(`${space},`)}${space}]`
    if (typeof each !== 'object' || each === null) return JSON.stringify(each)
    const members = Object.keys(each).map(
      (name) => `${text(name)}${space}:${of(each[name] ?? null)}`,
    )
    return `{${space}${members.join(`,${space}`)}}`
  }
  return `${space}${of(value)}${space}`
}

it('parses member names correctly, whatever objects were parsed before', () => {
  fc.assert(
    fc.property(
      values,
      fc.infiniteStream(fc.boolean()),
      fc.constantFrom('', ' ', '\n\t'),
      (value, choose, space) => {
        const text = written(value, () => choose.next().value === true, space)
        expect(parseJson(text)).toEqual(value)
      },
    ),
    { numRuns: roundsOf(3_000) },
  )
})

it.each([
  ['{"a":1,"\\\\":2}', '{"a":1,"\\n":2}', '\n'],
  ['{"b":1,"\\\\":2}', '{"b":1,"\\"":2}', '"'],
  ['{"c":1,"\\\\u":2}', '{"c":1,"\\u0041B":2}', 'AB'],
])('after parsing %s, parses the second member name of %s correctly', (first, second, name) => {
  const values = [parseJson(first), parseStrictText(first)]
  for (const parse of [parseJson, parseStrictText]) {
    const value = parse(second) as Record<string, Json>
    expect(Object.keys(value)[1]).toBe(name)
    expect(canonicalJson(value)).toContain(JSON.stringify(name))
    values.push(value)
  }
  expect(values).toHaveLength(4)
})

it('keeps the last of two members with the same name, and rejects the same texts as JSON.parse', () => {
  expect(parseJson('{"\\u0061":1,"a":2,"\\u0061":3}')).toEqual({ a: 3 })
  expect(Object.hasOwn(parseJson('{"__proto__":1,"\\n":2}'), '__proto__')).toBe(true)
  for (const text of [
    '',
    '{',
    '{"\\n"}',
    '{"\\n":}',
    '{"\\n":1,}',
    '["\\n":1]',
    '"\\',
    '{"\\x":1}',
  ]) {
    expect(() => parseJson(text)).toThrow(SyntaxError)
  }
})

it.each([
  [0, true],
  [7, true],
  [Number.MAX_SAFE_INTEGER, true],
  [-0, false],
  [-1, false],
  [0.5, false],
  [2 ** 53, false],
  ['7', false],
  [null, false],
  [undefined, false],
])('isCount(%o) returns %s', (value, expected) => {
  expect(isCount(value)).toBe(expected)
})
