import { createRequire } from 'node:module'
import type { Ajv, AnySchemaObject, Options, ValidateFunction } from 'ajv'
import type { FastifySchema, FastifySchemaCompiler } from 'fastify'

type Check = ReturnType<FastifySchemaCompiler<FastifySchema>>

/**
 * Compiles route schemas. Texts of a path, query or header become the numbers and booleans that a
 * schema names; a body is judged as it is, because coercing changes what was meant: it made `null`
 * of `[null]`, and so a new database of a list of items. Members are never removed.
 */
export function validatorCompiler(): FastifySchemaCompiler<FastifySchema> {
  const options = { useDefaults: true, removeAdditional: false, allErrors: false, strict: false }
  const coercing = compilerOf({ ...options, coerceTypes: 'array' }, COERCING)
  const exact = compilerOf(options, EXACT)
  return ({ schema, httpPart }) => lazily(httpPart === 'body' ? exact : coercing, schema)
}

/** What was compiled, by schema: listeners of one process that have the same routes share it. */
type Compiled = WeakMap<AnySchemaObject, ValidateFunction>
const EXACT: Compiled = new WeakMap()
const COERCING: Compiled = new WeakMap()

/** Compiles a schema, or has it; what compiles is loaded and made when there is something to compile. */
function compilerOf(
  options: Options,
  compiled: Compiled,
): (schema: AnySchemaObject) => ValidateFunction {
  let ajv: Ajv | null = null
  return (schema) => {
    const known = compiled.get(schema)
    if (known !== undefined) return known
    ajv ??= new (loadedAjv())(options)
    const validate = ajv.compile(schema)
    compiled.set(schema, validate)
    return validate
  }
}

function loadedAjv(): typeof Ajv {
  const { Ajv: loaded }: { Ajv: typeof Ajv } = createRequire(import.meta.url)('ajv')
  return loaded
}

/** Most of a start went into schemas of routes that are called later, or never. */
function lazily(compile: ReturnType<typeof compilerOf>, schema: AnySchemaObject): Check {
  let validate: ValidateFunction | null = null
  const check: Check = (value) => {
    validate ??= compile(schema)
    const holds = validate(value)
    if (!holds) check.errors = validate.errors ?? null
    return holds
  }
  return check
}
