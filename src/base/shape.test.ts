import { Type as TypeBox } from 'typebox'
import { Value } from 'typebox/value'
import { expect, it } from 'vitest'
import { Type } from './shape.ts'

/** Builds one schema with `make`, which is TypeBox's `Type` or ours. */
function built(make: Pick<typeof TypeBox, keyof typeof Type>) {
  const base = make.Object({
    id: make.String({ minLength: 1, description: 'An id' }),
    size: make.Optional(make.Integer({ minimum: 0 })),
    rate: make.Number(),
    isOpen: make.Boolean(),
    nothing: make.Null(),
  })
  const more = { additionalProperties: false, description: 'All of it' }
  return make.Object(
    {
      base,
      part: make.Pick(base, ['id', 'size']),
      order: make.Optional(make.Enum(['oldest', 'newest'], { description: 'Which first' })),
      list: make.Array(make.Union([make.Literal('a'), make.Literal(1), make.Literal(true)]), {
        maxItems: 3,
      }),
      either: make.Union([make.String(), make.Null()], { description: 'Or none' }),
      bytes: make.Optional(make.Unsafe<Uint8Array>(make.String({ format: 'binary' }))),
      none: make.Object({ only: make.Optional(make.Null()) }),
    },
    more,
  )
}

it('builds the same schemas as TypeBox, byte for byte', () => {
  expect(JSON.stringify(built(Type))).toBe(JSON.stringify(built(TypeBox)))
})

it('requires every member that is not optional', () => {
  const schema = Type.Object({ id: Type.String(), size: Type.Optional(Type.Integer()) })
  expect(Value.Check(schema, { id: 'fig' })).toBe(true)
  expect(Value.Check(schema, { size: 1 })).toBe(false)
  expect(Type.Object({ id: Type.String() })).toHaveProperty('required', ['id'])
})
