import fc from 'fast-check'
import { expect, it } from 'vitest'
import { canonicalJson } from '../base/canonical-json.ts'
import { isJsonObject } from '../base/json.ts'
import { bodyText, isItem, itemText, PlainItem, parseItems } from './item.ts'

const name = fc.oneof(
  fc.constantFrom('id', 'ida', 'ic', 'ie', 'i', ''),
  fc.string({ maxLength: 3 }),
)
const value = fc.oneof(fc.string(), fc.integer(), fc.constantFrom(null, true, [1, { z: 1, a: 2 }]))
const object = fc.dictionary(name, value, { noNullPrototype: true, maxKeys: 20 })

it('an item has the same id and text however it is written', () => {
  fc.assert(
    fc.property(object, fc.string(), (members, id) => {
      const escaped = parseItems(JSON.stringify(members).replace('{', '{\n'))
      const plain = parseItems(JSON.stringify(members))
      if (!isItem(escaped) || !isItem(plain)) throw new Error('no items')
      expect(escaped).not.toBeInstanceOf(PlainItem)
      expect(plain.id).toEqual(escaped.id)
      expect(itemText(plain)).toBe(itemText(escaped))
      expect(itemText(plain, id)).toBe(itemText(escaped, id))
    }),
    { numRuns: 2_000 },
  )
})

it('a body asks for the same however it is written', () => {
  const body = fc.oneof(object, fc.array(fc.oneof(object, value), { maxLength: 3 }))
  fc.assert(
    fc.property(body, (sent) => {
      const text = canonicalJson(sent)
      expect(bodyText(parseItems(JSON.stringify(sent)))).toBe(text)
      expect(bodyText(parseItems(JSON.stringify(sent, null, '\t')))).toBe(text)
    }),
    { numRuns: 2_000 },
  )
  expect([bodyText(undefined), bodyText(null)]).toEqual([null, null])
})

it('of what is plainly written no values are made, of a list as of one', () => {
  expect(parseItems('{"b": 1, "a": "x"}')).toBeInstanceOf(PlainItem)
  expect(parseItems('[{"b":1},{}]')).toEqual([expect.any(PlainItem), expect.any(PlainItem)])
  expect(isJsonObject(parseItems('{"a":"\\n"}'))).toBe(true)
})
