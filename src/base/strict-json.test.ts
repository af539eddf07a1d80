import fc from 'fast-check'
import { expect, it } from 'vitest'
import { roundsOf } from '../../test/support/rounds.ts'
import { canonicalJson } from './canonical-json.ts'
import type { Json } from './json.ts'
import {
  JSON_DEPTH_MAX,
  parseForeignJson,
  parseForeignJsonOrNull,
  parseStrictJson,
} from './strict-json.ts'

const parse = (text: string) => parseStrictJson(Buffer.from(text))
const codeOf = (text: string | Buffer) => {
  try {
    parseStrictJson(Buffer.from(text))
    return 'accepted'
  } catch (error) {
    return (error as { code: string }).code
  }
}
/** Any JSON value without `__proto__` and lone surrogates. */
const json = fc
  .jsonValue({ noUnicodeString: false })
  .filter((value) => !JSON.stringify(value).includes('__proto__')) as fc.Arbitrary<Json>

it('parses any JSON value like JSON.parse, compact or indented', () => {
  fc.assert(
    fc.property(json, fc.constantFrom(0, 1, 4), (value, indent) => {
      const text = JSON.stringify(value, null, indent)
      expect(parse(text)).toEqual(JSON.parse(text))
    }),
    { numRuns: roundsOf(1000) },
  )
})

it('accepts and rejects the same texts as JSON.parse, except for the documented differences', () => {
  const pieces = fc.constantFrom('{', '}', '[', ']', ',', ':', '"', '\\', '1', '-', 'e', 'a', ' ')
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 14 }), (parts) => {
      const text = parts.join('')
      let valid = true
      try {
        JSON.parse(text)
      } catch {
        valid = false
      }
      const code = codeOf(text)
      if (!valid) expect(code).not.toBe('accepted')
      else expect(code).not.toBe('JSON_MALFORMED')
    }),
    { numRuns: roundsOf(3000) },
  )
})

it('detects a duplicate member at any depth, even if one occurrence is escaped', () => {
  expect(codeOf('{"a":1,"a":1}')).toBe('JSON_DUPLICATE_MEMBER')
  expect(codeOf('{"a":1,"\\u0061":2}')).toBe('JSON_DUPLICATE_MEMBER')
  expect(codeOf('[{"x":{"b":1,"c":[{"d":1,"d":2}]}}]')).toBe('JSON_DUPLICATE_MEMBER')
  expect(codeOf('{"a":{"a":1},"b":{"a":":"}}')).toBe('accepted')
})

it('accepts strings that contain colons and brackets', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string({ unit: fc.constantFrom(':', '"', '\\', 'u', '{') }), fc.string()),
      (o) => {
        expect(parse(JSON.stringify(o))).toEqual(o)
      },
    ),
  )
})

it.each([
  ['9007199254740993', 'JSON_NUMBER_INEXACT'],
  ['-9007199254740993', 'JSON_NUMBER_INEXACT'],
  ['9007199254740992', 'accepted'],
  ['1E400', 'JSON_NUMBER_INEXACT'],
  ['-1e400', 'JSON_NUMBER_INEXACT'],
  ['1e-400', 'JSON_NUMBER_INEXACT'],
  ['0e999', 'accepted'],
  ['1.0', 'accepted'],
  ['-0', 'accepted'],
  ['0.1', 'accepted'],
  ['0.10000000000000001', 'accepted'],
  ['0.1000000000000000055511151231257827', 'JSON_NUMBER_INEXACT'],
  ['3.14159265358979323846', 'JSON_NUMBER_INEXACT'],
  ['1e21', 'accepted'],
  ['100000000000000000000000', 'accepted'],
  ['5e-324', 'accepted'],
  ['1.7976931348623157e308', 'accepted'],
  ['01', 'JSON_MALFORMED'],
  ['1e', 'JSON_MALFORMED'],
])('the result for the number %s is %s', (text, code) => {
  expect(codeOf(`{"n":${text}}`)).toBe(code)
})

it('accepts every finite double as printed by ECMAScript and by C with 17 digits', () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
      expect(parse(`[${value}]`)).toEqual([value === 0 ? 0 : value])
      expect(codeOf(`[${value.toPrecision(17)}]`)).toBe('accepted')
    }),
    { numRuns: roundsOf(2000) },
  )
})

it('accepts numbers with few digits and an exponent, and rejects those that binary64 cannot represent', () => {
  const digits = fc.tuple(
    fc.integer({ min: -99_999_999, max: 99_999_999 }),
    fc.integer({ min: -270, max: 270 }),
  )
  fc.assert(
    fc.property(digits, ([mantissa, exponent]) => {
      const [value] = parse(`[${mantissa}e${exponent}]`) as number[]
      // Recomputes the decimal number from the binary64 number, which must not have lost a digit.
      const [back = '', power = '0'] = (value ?? 0).toExponential().split('e')
      const fraction = back.split('.')[1]?.length ?? 0
      const scale = exponent - (Number(power) - fraction)
      expect(BigInt(back.replace('.', ''))).toBe(
        (BigInt(mantissa) * 10n ** BigInt(Math.max(0, scale))) / 10n ** BigInt(Math.max(0, -scale)),
      )
    }),
  )
  for (const text of ['1e308', '9e307', '1e-307', '5e-324']) expect(codeOf(text)).toBe('accepted')
  for (const text of ['1e309', '2e308', '1e-324', '2e-324', '3e-324', '1234567e-328']) {
    expect([text, codeOf(text)]).toEqual([text, 'JSON_NUMBER_INEXACT'])
  }
})

it('parses a number with very many zeros at once', () => {
  const zeros = '0'.repeat(1_000_000)
  expect(codeOf(`1.${zeros}1`)).toBe('JSON_NUMBER_INEXACT')
  expect(parse(`1.${zeros}`)).toBe(1)
  expect(parse(`1.5${zeros}e3`)).toBe(1_500)
})

it('rejects __proto__, lone surrogates, invalid UTF-8 and malformed text', () => {
  expect(codeOf('{"__proto__":1}')).toBe('JSON_FORBIDDEN_MEMBER')
  expect(codeOf('{"a":[{"\\u005f_proto__":1}]}')).toBe('JSON_FORBIDDEN_MEMBER')
  expect(codeOf('"\\ud800"')).toBe('JSON_LONE_SURROGATE')
  expect(codeOf('{"\\uDC00":1}')).toBe('JSON_LONE_SURROGATE')
  expect(codeOf('"\\ud83d\\ude00"')).toBe('accepted')
  expect(codeOf('"\\\\ud800"')).toBe('accepted')
  expect(codeOf(Buffer.from([0x22, 0xff, 0x22]))).toBe('JSON_NOT_UTF8')
  expect(codeOf('{"a":')).toBe('JSON_MALFORMED')
  expect(codeOf('')).toBe('JSON_MALFORMED')
})

it.each([
  ['', 'position 0 (line 1 column 1)'],
  ['{"a":1,\n "b": ', 'position 14 (line 2 column 7)'],
  ['{"a":tru', 'position 8 (line 1 column 9)'],
  ['{"a":1,\n "b":x, "c":2}', 'position 13 (line 2 column 6)'],
  [`{"${'a'.repeat(100)}":[1,nul]}`, 'position 110 (line 1 column 111)'],
  ['[1 2]', 'position 3 (line 1 column 4)'],
  ['"abc', 'position 4 (line 1 column 5)'],
])('the error of the malformed text %j says %s', (text, position) => {
  expect(() => parse(text)).toThrow(`at ${position}`)
})

it(`accepts ${JSON_DEPTH_MAX} levels of nesting and rejects one level more, or a million`, () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  expect(codeOf(nested(JSON_DEPTH_MAX))).toBe('accepted')
  expect(codeOf(nested(JSON_DEPTH_MAX + 1))).toBe('JSON_TOO_DEEP')
  expect(codeOf(nested(1_000_000))).toBe('JSON_TOO_DEEP')
})

it('accepts every text of 10 MiB, and rejects a text of more than 8,000,000 tokens before it is parsed', () => {
  const lists = (bytes: number) => `[${'[],'.repeat(bytes / 3 - 2)}[]]`
  expect(codeOf(lists(10 * 1_024 * 1_024))).toBe('accepted')
  expect(codeOf(lists(12_100_000))).toBe('JSON_TOO_LARGE')
  // Tokens inside strings do not count, and the text is not valid JSON.
  expect(codeOf(`"${'[,:'.repeat(4_000_000)}"`)).toBe('accepted')
  expect(codeOf('{,'.repeat(40))).toBe('JSON_MALFORMED')
  expect(codeOf(','.repeat(8_000_001))).toBe('JSON_TOO_LARGE')
})

it('parses the texts of others like JSON.parse, but not if they are too deep or have too many tokens', () => {
  for (const text of ['{"a":1,"a":2}', '1e999', '"\\ud800"', '[1.0,12345678901234567890]']) {
    expect(parseForeignJson(text)).toEqual(JSON.parse(text))
  }
  expect(parseForeignJsonOrNull('{')).toBeNull()
  expect(parseForeignJsonOrNull('['.repeat(81) + ']'.repeat(81))).toBeNull()
  expect(parseForeignJsonOrNull(`[${'{},'.repeat(10_000_000)}{}]`)).toBeNull()
})

it('accepts the canonical form of each accepted text, and prints it unchanged', () => {
  fc.assert(
    fc.property(json, (value) => {
      const text = canonicalJson(parse(JSON.stringify(value)))
      expect(canonicalJson(parse(text))).toBe(text)
    }),
  )
})
