import fc from 'fast-check'
import { expect, it } from 'vitest'
import { roundsOf } from '../../../test/support/rounds.ts'
import { canonicalJson } from '../../base/canonical-json.ts'
import { parseStrictText } from '../../base/strict-json.ts'
import { bodyText, itemText, requireItem } from './item.ts'

const name = fc.oneof(
  fc.constantFrom('id', 'ida', 'ic', 'ie', 'i', ''),
  fc.string({ maxLength: 3 }),
)
const value = fc.oneof(fc.string(), fc.integer(), fc.constantFrom(null, true, [1, { z: 1, a: 2 }]))
const object = fc
  .dictionary(name, value, { noNullPrototype: true, maxKeys: 20 })
  .filter((members) => !Object.hasOwn(members, '__proto__'))
/** The same JSON value, compact and indented. */
const spellings = (sent: unknown) => [JSON.stringify(sent), JSON.stringify(sent, null, '\t')]

it('gives the same id and the same canonical text for a compact and an indented item', () => {
  fc.assert(
    fc.property(object, fc.string(), (members, id) => {
      for (const text of spellings(members)) {
        const item = requireItem(parseStrictText(text))
        expect(item.id).toEqual(members.id)
        expect(itemText(item)).toBe(canonicalJson(members))
        expect(itemText(item, id)).toBe(canonicalJson({ ...members, id }))
      }
    }),
    { numRuns: roundsOf(2_000) },
  )
})

it('gives the same canonical text for a compact and an indented body, and null for no body', () => {
  const body = fc.oneof(object, fc.array(fc.oneof(object, value), { maxLength: 3 }))
  fc.assert(
    fc.property(body, (sent) => {
      for (const text of spellings(sent)) {
        expect(bodyText(parseStrictText(text))).toBe(canonicalJson(sent))
      }
    }),
    { numRuns: roundsOf(2_000) },
  )
  expect([bodyText(undefined), bodyText(null)]).toEqual([null, null])
})
