import type { Static, TSchema } from 'typebox'
import { isCount, isJsonObject } from './json.ts'
import { Type } from './shape.ts'
import { parseForeignJsonOrNull } from './strict-json.ts'

/** Parses JSON of a file or of another program. Returns null unless the value has the shape of `schema`. */
export function parseShape<Shape extends TSchema>(
  schema: Shape,
  text: string,
): Static<Shape> | null {
  const value: unknown = parseForeignJsonOrNull(text)
  return hasShape(schema, value) ? value : null
}

/** Schema of an object whose members all have the shape of `member`. */
export function mapSchema<Member extends TSchema>(member: Member) {
  const map = Type.Object({}, { additionalProperties: member })
  return Type.Unsafe<Readonly<Record<string, Static<Member>>>>(map)
}

/** The keywords of the schemas that `Type` builds. */
interface Keywords {
  readonly type?: string
  readonly anyOf?: readonly Keywords[]
  readonly const?: unknown
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, Keywords>>
  readonly additionalProperties?: Keywords | false
  readonly items?: Keywords
  readonly minItems?: number
  readonly maxItems?: number
  readonly pattern?: string
}

/** Whether `value` has the shape of `schema`, which is built with `Type`. Integers must be counts: safe, and 0 or more. */
function hasShape<Shape extends TSchema>(schema: Shape, value: unknown): value is Static<Shape> {
  return fits(schema as Keywords, value)
}

function fits(schema: Keywords, value: unknown): boolean {
  const { type, anyOf, required = [], properties = {}, items = {}, pattern = '' } = schema
  if (anyOf !== undefined) return anyOf.some((one) => fits(one, value))
  if (schema.const !== undefined) return value === schema.const
  if (type === 'array') {
    const { minItems = 0, maxItems = Number.POSITIVE_INFINITY } = schema
    const isList = Array.isArray(value) && value.length >= minItems && value.length <= maxItems
    return isList && value.every((one) => fits(items, one))
  }
  if (type === 'null') return value === null
  if (type === 'integer') return isCount(value)
  if (type === 'string') return typeof value === 'string' && new RegExp(pattern).test(value)
  if (type !== 'object') return type === undefined || typeof value === type
  const { additionalProperties: other } = schema
  return (
    isJsonObject(value) &&
    required.every((name) => Object.hasOwn(value, name)) &&
    Object.entries(value).every(([name, member]) => {
      const known = Object.hasOwn(properties, name) ? properties[name] : other
      return known === undefined || (known !== false && fits(known, member))
    })
  )
}
