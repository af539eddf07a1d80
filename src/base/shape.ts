import type { Type as TypeBox } from 'typebox'

type Schema = Readonly<Record<string, unknown>>

/** Schemas of optional members. A separate set, because JSON Schema lists the required members in the parent object. */
const optional = new WeakSet<Schema>()

function object(properties: Readonly<Record<string, Schema>>, more?: Schema): Schema {
  const required = Object.entries(properties).flatMap(([name, schema]) =>
    optional.has(schema) ? [] : [name],
  )
  return { type: 'object', ...(required.length > 0 ? { required } : {}), properties, ...more }
}

const ofType = (type: string) => (more?: Schema) => ({ type, ...more })

const builders = {
  Array: (items: Schema, more?: Schema) => ({ type: 'array', items, ...more }),
  Boolean: ofType('boolean'),
  Enum: (values: readonly string[], more?: Schema) => ({ enum: values, ...more }),
  Integer: ofType('integer'),
  Literal: (value: string | number | boolean, more?: Schema) => {
    return { type: typeof value, const: value, ...more }
  },
  Null: ofType('null'),
  Number: ofType('number'),
  Object: object,
  Optional: (schema: Schema) => {
    const copy = { ...schema }
    optional.add(copy)
    return copy
  },
  Pick: ({ properties }: { properties: Record<string, Schema> }, names: readonly string[]) => {
    return object(Object.fromEntries(names.map((name) => [name, properties[name] ?? {}])))
  },
  String: ofType('string'),
  Union: (anyOf: readonly Schema[], more?: Schema) => ({ anyOf, ...more }),
  Unsafe: (schema: Schema) => schema,
}

/**
 * Builds JSON schemas with the types and the semantics of TypeBox, but without loading TypeBox, which would be a fifth
 * of the code that the program loads at startup.
 */
// The cast is safe: shape.test.ts checks that the builders and TypeBox return the same schemas as JSON.
export const Type = builders as unknown as Pick<typeof TypeBox, keyof typeof builders>
