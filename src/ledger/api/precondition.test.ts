import fc from 'fast-check'
import { expect, it } from 'vitest'
import { holds } from '../write/request-conditions.ts'
import { parsePrecondition, readStatus } from './conditions.ts'

const AT = '3.1'

it.each([
  // RFC 9110 section 13.1.1: strong comparison.
  ['*', true, false],
  ['\t* ', true, false],
  ['"3.1"', true, false],
  ['"3.0"', false, false],
  ['W/"3.1"', false, false],
  ['"1.0", "3.1"', true, false],
  [' , "1.0" ,\t"3.1",', true, false],
  ['"a,b", "3.1"', true, false],
  ['""', false, false],
])(
  'If-Match %s with the current revision 3.1 passes: %s; with a missing item: %s',
  (text, there, absent) => {
    const precondition = parsePrecondition(text, undefined)
    if (precondition === null) throw new Error('there is one')
    expect([holds(precondition, AT), holds(precondition, null)]).toEqual([there, absent])
  },
)

it.each([
  // RFC 9110 section 13.1.2: weak comparison.
  ['*', false, true],
  ['"3.1"', false, true],
  ['W/"3.1"', false, true],
  ['"3.0", W/"2.0"', true, true],
])(
  'If-None-Match %s with the current revision 3.1 passes: %s; with a missing item: %s',
  (text, there, absent) => {
    const precondition = parsePrecondition(undefined, text)
    if (precondition === null) throw new Error('there is one')
    expect([holds(precondition, AT), holds(precondition, null)]).toEqual([there, absent])
    expect(readStatus(precondition, AT)).toBe(there ? 200 : 304)
  },
)

it.each(['', ' ', ',', '3.1', '"3.1', '"3.1" "3.0"', 'w/"3.1"', '*, "3.1"', '"a\u0001"', '" "'])(
  'rejects the header %j',
  (text) => {
    expect(() => parsePrecondition(text, undefined)).toThrow('double quotes')
    expect(() => parsePrecondition(undefined, text)).toThrow('double quotes')
  },
)

it('checks no condition without the headers, and both conditions if both headers are sent', () => {
  expect(parsePrecondition(undefined, undefined)).toBeNull()
  const both = parsePrecondition('"3.1"', '"3.1"')
  expect(both !== null && holds(both, AT)).toBe(false)
})

it('a read with If-Match for a different revision gets status 412', () => {
  const precondition = parsePrecondition('"3.0"', undefined)
  if (precondition === null) throw new Error('there is one')
  expect(readStatus(precondition, AT)).toBe(412)
})

it('parses or rejects any header correctly', () => {
  const odd = fc.string({ unit: fc.constantFrom('"', 'W/', ',', ' ', '*', '3.1', 'é', '\\', '') })
  fc.assert(
    fc.property(odd, (text) => {
      try {
        expect(parsePrecondition(text, undefined)).not.toBeNull()
      } catch (error) {
        expect((error as { code: string }).code).toBe('PRECONDITION_INVALID')
      }
    }),
  )
  const tag = fc.string({ unit: fc.constantFrom('a', ',', '*', 'é', '.') })
  fc.assert(
    fc.property(
      fc.array(tag, { minLength: 1 }),
      fc.constantFrom(',', ' , ', ',\t,'),
      (list, comma) => {
        const text = list.map((each) => `"${each}"`).join(comma)
        expect(parsePrecondition(text, undefined)).toEqual({ match: list, noneMatch: null })
      },
    ),
  )
})

it('parses a long header of spaces quickly', () => {
  expect(() => parsePrecondition(`${' '.repeat(1_000_000)}x`, undefined)).toThrow('double quotes')
})
