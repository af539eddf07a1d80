import { Ajv, type AnySchema, type ValidateFunction } from 'ajv'
import type { FastifySchema, FastifySchemaCompiler } from 'fastify'

type Check = ReturnType<FastifySchemaCompiler<FastifySchema>>

/**
 * Compiles route schemas. Texts of a path, query or header become the numbers and booleans that a
 * schema names; a body is judged as it is, because coercing changes what was meant: it made `null`
 * of `[null]`, and so a new database of a list of items. Members are never removed.
 */
export function validatorCompiler(): FastifySchemaCompiler<FastifySchema> {
  const options = { useDefaults: true, removeAdditional: false, allErrors: false, strict: false }
  const coercing = new Ajv({ ...options, coerceTypes: 'array' })
  const exact = new Ajv(options)
  return ({ schema, httpPart }) => lazily(httpPart === 'body' ? exact : coercing, schema)
}

/** Most of a start went into schemas of routes that are called later, or never. */
function lazily(ajv: Ajv, schema: AnySchema): Check {
  let validate: ValidateFunction | null = null
  const check: Check = (value) => {
    validate ??= ajv.compile(schema)
    const holds = validate(value)
    if (!holds) check.errors = validate.errors ?? null
    return holds
  }
  return check
}
