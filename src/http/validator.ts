import { Ajv, type AnySchemaObject, type ValidateFunction } from 'ajv'
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
  return ({ schema, httpPart }) =>
    httpPart === 'body' ? lazily(exact, EXACT, schema) : lazily(coercing, COERCING, schema)
}

/** What was compiled, by schema: listeners of one process that have the same routes share it. */
type Compiled = WeakMap<AnySchemaObject, ValidateFunction>
const EXACT: Compiled = new WeakMap()
const COERCING: Compiled = new WeakMap()

/** Most of a start went into schemas of routes that are called later, or never. */
function lazily(ajv: Ajv, compiled: Compiled, schema: AnySchemaObject): Check {
  let validate: ValidateFunction | null = null
  const check: Check = (value) => {
    validate ??= compiledOnce(ajv, compiled, schema)
    const holds = validate(value)
    if (!holds) check.errors = validate.errors ?? null
    return holds
  }
  return check
}

function compiledOnce(ajv: Ajv, compiled: Compiled, schema: AnySchemaObject): ValidateFunction {
  const validate = compiled.get(schema) ?? ajv.compile(schema)
  compiled.set(schema, validate)
  return validate
}
