import fc from 'fast-check'
import { expect, it } from 'vitest'
import { canonicalJson } from './canonical-json.ts'
import { isJsonObject, type Json } from './json.ts'
import { type PlainObject, plainObjects, textOfPlain } from './plain-json.ts'
import { parseStrictText } from './strict-text.ts'
import { plainValue } from './test-plain.ts'

const RUNS = 3_000

/** The canonical texts of what the strict parser makes of `text`; null where it is no object or list of such. */
function parsed(text: string): string | string[] | null {
  try {
    const value = parseStrictText(text)
    if (Array.isArray(value)) return value.every(isJsonObject) ? value.map(canonicalJson) : null
    return isJsonObject(value) ? canonicalJson(value) : null
  } catch {
    return null
  }
}

function cut(text: string): string | string[] | null {
  const found = plainObjects(text)
  if (found === null) return null
  return 'names' in found ? textOfPlain(found) : found.map(textOfPlain)
}

const plainText = fc.string({
  unit: fc.constantFrom(...'abZ09 .é本😀/!_'),
  maxLength: 24,
})
const plain = plainValue(plainText)
const object = fc.dictionary(plainText, plain, { maxKeys: 24 })
const body = fc.oneof(object, fc.array(object, { maxLength: 4 }))

/** As programs write it that put a space behind each sign. */
const spaced = (value: Json) =>
  JSON.stringify(value, null, 1).replace(/\n */g, (found) => (found.length % 2 === 0 ? ' ' : ''))
const writers = fc.constantFrom<(value: Json) => string>(JSON.stringify, spaced, canonicalJson)

it('the canonical form of every plainly written body is what parsing and printing make of it', () => {
  fc.assert(
    fc.property(body, writers, (value, write) => {
      const text = write(value)
      // -0 is written 0; all else comes back as it went.
      expect(cut(text)).toEqual(parsed(text))
      expect(cut(text)).not.toBeNull()
    }),
    { numRuns: RUNS },
  )
})

it('says nothing of a text that is changed in any one place, unless parsing it says the same', () => {
  const changes = [
    ...'"{}[]:,-+.0 19eEaé\\\u0000\ttfn',
    '',
    '"a":1',
    ',,',
    '00',
    'null',
    '"__proto__":1,',
  ]
  fc.assert(
    fc.property(body, fc.nat(), fc.constantFrom(...changes), fc.nat(2), (value, at, put, gone) => {
      const text = JSON.stringify(value)
      const place = at % (text.length + 1)
      const changed = text.slice(0, place) + put + text.slice(place + gone)
      // Bytes that are UTF-8 have no half of a pair.
      fc.pre(changed.isWellFormed())
      const found = cut(changed)
      if (found !== null) expect(found).toEqual(parsed(changed))
    }),
    { numRuns: 5 * RUNS },
  )
})

it.each([
  ['a member twice', '{"a":1,"b":2,"a":3}'],
  [
    'a member twice among many',
    `{${Array.from({ length: 40 }, (_, n) => `"m${n % 39}":1`).join()}}`,
  ],
  ['a member twice within', '[{"a":[{"b":1,"b":1}]}]'],
  ['__proto__', '{"__proto__":{}}'],
  ['an escape', '{"a":"\\u0061"}'],
  ['a tab between', '{"a":\t1}'],
  ['a number in another form', '{"a":1.0}'],
  ['a number that no double holds', '{"a":9007199254740993}'],
  ['-0', '{"a":-0}'],
  ['a list of others', '[1]'],
  ['a text', '"a"'],
  ['nothing', ''],
  ['spaces', '  '],
  ['more behind it', '{} {}'],
  ['half of it', '{"a":1'],
  ['a comma too many', '{"a":1,}'],
  ['65 levels', `{"a":${'['.repeat(64)}${']'.repeat(64)}}`],
])('leaves %s to the parser', (_what, text) => {
  expect(plainObjects(text)).toBeNull()
})

it('takes 64 levels, and members in the order of their UTF-16 code units', () => {
  const deep = `{"a":${'['.repeat(63)}${']'.repeat(63)}}`
  expect(cut(deep)).toBe(deep)
  const found = plainObjects('{"\u{1f600}":1,"\ufb33":2,"a!":3,"a":4}') as PlainObject
  expect(found.names).toEqual(['a', 'a!', '\u{1f600}', '\ufb33'])
})
