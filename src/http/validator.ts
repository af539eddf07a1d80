import { Ajv } from 'ajv'
import type { FastifySchema, FastifySchemaCompiler } from 'fastify'

/**
 * Compiles route schemas. Texts of a path, query or header become the numbers and booleans that a
 * schema names; a body is judged as it is, because coercing changes what was meant: it made `null`
 * of `[null]`, and so a new database of a list of items. Members are never removed.
 */
export function validatorCompiler(): FastifySchemaCompiler<FastifySchema> {
  const options = { useDefaults: true, removeAdditional: false, allErrors: false, strict: false }
  const coercing = new Ajv({ ...options, coerceTypes: 'array' })
  const exact = new Ajv(options)
  return ({ schema, httpPart }) => (httpPart === 'body' ? exact : coercing).compile(schema)
}
