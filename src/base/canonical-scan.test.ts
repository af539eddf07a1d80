import fc from 'fast-check'
import { expect, it } from 'vitest'
import { canonicalJson } from './canonical-json.ts'
import { canonicalMember } from './canonical-scan.ts'
import { isJsonObject, type Json } from './json.ts'
import { plainValue } from './test-plain.ts'

const RUNS = 2_000

/** What parsing and printing say: the text of the member, or null where `text` is not canonical. */
function parsedMember(text: string, name: string): string | null {
  try {
    const value: Json = JSON.parse(text)
    if (!isJsonObject(value) || canonicalJson(value) !== text) return null
    const member = Object.hasOwn(value, name) ? value[name] : undefined
    return member === undefined ? null : canonicalJson(member)
  } catch {
    return null
  }
}

const plainText = fc.string({ unit: fc.constantFrom(...'aZ09 .é本/id'.split('')), maxLength: 6 })
const plain = plainValue(plainText)
const item = fc
  .tuple(fc.dictionary(plainText, plain, { maxKeys: 6 }), plain)
  .map(([members, id]): Json => ({ ...members, id }))

it('finds the member of every object whose strings need no escape', () => {
  fc.assert(
    fc.property(item, (value) => {
      const text = canonicalJson(value)
      expect(canonicalMember(text, 'id')).toBe(parsedMember(text, 'id'))
      expect(canonicalMember(text, 'id')).not.toBeNull()
    }),
    { numRuns: RUNS },
  )
})

it('finds a member of a member, and none where the way there leads through anything but objects', () => {
  fc.assert(
    fc.property(item, plain, (value, other) => {
      const text = canonicalJson({ a: other, item: value, method: 'create_item' })
      expect(canonicalMember(text, 'item', 'id')).toBe(parsedMember(canonicalJson(value), 'id'))
      expect(canonicalMember(text, 'item')).toBe(canonicalJson(value))
    }),
    { numRuns: RUNS },
  )
  for (const text of [
    '{"item":[{"id":1}]}',
    '{"item":"id"}',
    '{"id":1,"item":{}}',
    '{"item":{"a":{"id":1}}}',
  ]) {
    expect([text, canonicalMember(text, 'item', 'id')]).toEqual([text, null])
  }
})

it('says nothing of a text that is changed in any one place, unless parsing it says the same', () => {
  const changes = [...'"{}[]:,-+.0 19eEaé\\\u0000\ud800tfn', '', '"id":1', ',,', '00', 'null']
  fc.assert(
    fc.property(item, fc.nat(), fc.constantFrom(...changes), fc.nat(2), (value, at, put, cut) => {
      const text = canonicalJson(value)
      const place = at % (text.length + 1)
      const changed = text.slice(0, place) + put + text.slice(place + cut)
      const found = canonicalMember(changed, 'id')
      if (found !== null) expect(found).toBe(parsedMember(changed, 'id'))
    }),
    { numRuns: 5 * RUNS },
  )
})

it.each([
  ['{"id":1}', '1'],
  ['{"a":{"id":2},"id":1}', '1'],
  ['{"a":-1.5,"b":[],"c":{},"id":"x"}', '"x"'],
  ['{"10":1,"2":2,"id":0}', '0'],
  ['{"id":100000000000000000000}', '100000000000000000000'],
  // It stands there, but nothing is said.
  ['{"a":"\\n","id":1}', null],
  ['{"a":"😀","id":1}', null],
  // Not canonical.
  ['{"id":1,"id":1}', null],
  ['{"id":1,"a":2}', null],
  ['{"2":2,"10":1,"id":0}', null],
  ['{"id":-0}', null],
  ['{"id":01}', null],
  ['{"id":1.0}', null],
  ['{"id":1e3}', null],
  ['{"id":9007199254740993}', null],
  ['{"id":1e400}', null],
  ['{"id":1 }', null],
  ['{"id":1}}', null],
  ['{"id":1', null],
  ['{"id":1,}', null],
  ['{"id":truely}', null],
  ['{"id":"x}', null],
  ['["id",1]', null],
  ['', null],
  [`{"a":${'['.repeat(65)}${']'.repeat(65)},"id":1}`, null],
])('%j', (text, member) => {
  expect(canonicalMember(text, 'id')).toBe(member)
})
