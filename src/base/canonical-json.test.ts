import canonicalize from 'canonicalize'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { roundsOf } from '../../test/support/rounds.ts'
import { canonicalJson } from './canonical-json.ts'
import type { Json } from './json.ts'

it('prints the example of RFC 8785 section 3.2.2 as the RFC does', () => {
  const text = String.raw`{
    "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
    "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
    "literals": [null, true, false]
  }`
  expect(canonicalJson(JSON.parse(text))).toBe(
    String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
  )
})

it('sorts the example of RFC 8785 section 3.2.3 by UTF-16 code units', () => {
  const object = {
    '\u20ac': 'Euro Sign',
    '\r': 'Carriage Return',
    '\ufb33': 'Hebrew Letter Dalet With Dagesh',
    '1': 'One',
    '\ud83d\ude00': 'Emoji: Grinning Face',
    '\u0080': 'Control',
    '\u00f6': 'Latin Small Letter O With Diaeresis',
  }
  const values = [...canonicalJson(object).matchAll(/:"([^"]*)"/g)].map(([, value]) => value)
  expect(values).toEqual([
    'Carriage Return',
    'One',
    'Control',
    'Latin Small Letter O With Diaeresis',
    'Euro Sign',
    'Emoji: Grinning Face',
    'Hebrew Letter Dalet With Dagesh',
  ])
})

/** Test vectors of RFC 8785, appendix B: the bits of a binary64 number in hexadecimal, and its canonical text. */
const NUMBERS: [string, string][] = [
  ['0000000000000000', '0'],
  ['8000000000000000', '0'],
  ['0000000000000001', '5e-324'],
  ['8000000000000001', '-5e-324'],
  ['7fefffffffffffff', '1.7976931348623157e+308'],
  ['ffefffffffffffff', '-1.7976931348623157e+308'],
  ['4340000000000000', '9007199254740992'],
  ['c340000000000000', '-9007199254740992'],
  ['4430000000000000', '295147905179352830000'],
  ['44b52d02c7e14af5', '9.999999999999997e+22'],
  ['44b52d02c7e14af6', '1e+23'],
  ['44b52d02c7e14af7', '1.0000000000000001e+23'],
  ['444b1ae4d6e2ef4e', '999999999999999700000'],
  ['444b1ae4d6e2ef4f', '999999999999999900000'],
  ['444b1ae4d6e2ef50', '1e+21'],
  ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
  ['3eb0c6f7a0b5ed8d', '0.000001'],
  ['41b3de4355555553', '333333333.3333332'],
  ['41b3de4355555554', '333333333.33333325'],
  ['41b3de4355555555', '333333333.3333333'],
  ['41b3de4355555556', '333333333.3333334'],
  ['41b3de4355555557', '333333333.33333343'],
  ['becbf647612f3696', '-0.0000033333333333333333'],
  ['43143ff3c1cb0959', '1424953923781206.2'],
]

it.each(NUMBERS)('prints the number %s of RFC 8785 appendix B as %s', (bits, text) => {
  expect(canonicalJson(Buffer.from(bits, 'hex').readDoubleBE())).toBe(text)
})

it('throws for NaN, infinities and lone surrogates', () => {
  for (const bits of ['7fffffffffffffff', '7ff0000000000000', 'fff0000000000000']) {
    const double = Buffer.from(bits, 'hex').readDoubleBE()
    expect(() => canonicalJson(double)).toThrow(RangeError)
    expect(() => canonicalJson({ a: [double] })).toThrow(RangeError)
  }
  for (const text of ['\ud800', 'a\udc00b', '\udc00\ud800']) {
    expect(() => canonicalJson(text)).toThrow(RangeError)
    expect(() => canonicalJson({ [text]: 1 })).toThrow(RangeError)
    expect(() => canonicalJson([{ a: 1, b: text }])).toThrow(RangeError)
  }
})

it('agrees with an independent implementation on any value', () => {
  const strings = fc.string({ unit: 'grapheme' })
  const value = fc.letrec((tie) => ({
    any: fc.oneof(
      fc.constant(null),
      fc.boolean(),
      strings,
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.array(tie('any'), { maxLength: 4 }),
      fc.dictionary(fc.oneof(strings, fc.nat().map(String)), tie('any'), { maxKeys: 6 }),
    ),
  })).any as fc.Arbitrary<Json>
  fc.assert(
    fc.property(value, (any) => {
      const text = canonicalJson(any)
      expect(text).toBe(canonicalize(any))
      // Sorted input takes a different code path, which must give the same text.
      expect(canonicalJson(JSON.parse(text))).toBe(text)
    }),
    { numRuns: roundsOf(2000) },
  )
})

it('sorts integer-like member names as text, and keeps members named like prototype properties', () => {
  const texts = [
    ['{"b":1,"__proto__":{"d":1,"c":2},"a":2}', '{"__proto__":{"c":2,"d":1},"a":2,"b":1}'],
    ['{"b":{"9":1,"10":2,"-":3},"a":""}', '{"a":"","b":{"-":3,"10":2,"9":1}}'],
    ['[{"b":1,"a":2},{"1a":1,"0":2}]', '[{"a":2,"b":1},{"0":2,"1a":1}]'],
  ]
  for (const [text = '', canonical] of texts) {
    expect(canonicalJson(JSON.parse(text))).toBe(canonical)
  }
})
