import { Ajv } from 'ajv'
import type { FastifySchema, FastifySchemaCompiler } from 'fastify'

/**
 * Compiles route schemas. Texts of a path, query or header become the numbers and booleans that a schema
 * names. A body is validated as it is, because coercion changes its meaning: `[null]` became `null`, and a
 * new database a list of items. Members are never removed.
 */
export function validatorCompiler(): FastifySchemaCompiler<FastifySchema> {
  const options = { useDefaults: true, removeAdditional: false, allErrors: false, strict: false }
  const exact = new Ajv(options)
  const coercing = new Ajv({ ...options, coerceTypes: 'array' })
  return ({ schema, httpPart }) => (httpPart === 'body' ? exact : coercing).compile(schema)
}
