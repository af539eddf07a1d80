import fc from 'fast-check'
import { Value } from 'typebox/value'
import { expect, it } from 'vitest'
import { roundsOf } from '../../test/support/rounds.ts'
import { Type } from './shape.ts'
import { mapSchema, parseShape } from './shaped-json.ts'

const schema = Type.Object({
  name: Type.String({ pattern: '^[a-z]+$' }),
  size: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  isOpen: Type.Optional(Type.Boolean()),
  list: Type.Array(Type.Union([Type.Literal('a'), Type.Null(), Type.Number()])),
})

const value = fc.record(
  {
    name: fc.constantFrom('fig', 'Fig', '', 1, null),
    size: fc.constantFrom(0, 1, -1, 1.5, 2 ** 53, '1'),
    isOpen: fc.constantFrom(true, false, null, 0),
    list: fc.oneof(fc.array(fc.constantFrom('a', 'b', null, 2, true)), fc.constantFrom({}, 'a')),
    more: fc.jsonValue(),
  },
  { requiredKeys: [] },
)

it('accepts the values that TypeBox accepts', () => {
  fc.assert(
    fc.property(fc.oneof(value, fc.jsonValue()), (one) => {
      const parsed = parseShape(schema, JSON.stringify(one))
      expect(parsed).toEqual(Value.Check(schema, one) ? one : null)
    }),
    {
      numRuns: roundsOf(2_000),
      examples: [[{ name: 'fig', size: 2, list: ['a', null, 0.5], isOpen: true }]],
    },
  )
})

it('checks the members of a map and rejects unknown members if the schema says so', () => {
  const map = mapSchema(Type.Integer())
  expect(parseShape(map, '{"a":1,"__proto__":2}')).not.toBeNull()
  expect(parseShape(map, '{"a":1,"b":"2"}')).toBeNull()
  const closed = Type.Object({ a: Type.Integer() }, { additionalProperties: false })
  expect(parseShape(closed, '{"a":1}')).toEqual({ a: 1 })
  expect(parseShape(closed, '{"a":1,"b":1}')).toBeNull()
  expect(parseShape(closed, '{"a":')).toBeNull()
})
