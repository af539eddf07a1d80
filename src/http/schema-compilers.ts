import { Ajv } from 'ajv'
import fastJsonStringify from 'fast-json-stringify'
import type { FastifySchema, FastifySchemaCompiler, FastifySerializerCompiler } from 'fastify'

type Validate = ReturnType<FastifySchemaCompiler<FastifySchema>>

// With `verbose`, errors contain the violated schema, for their message.
const OPTIONS = {
  useDefaults: true,
  removeAdditional: false,
  allErrors: false,
  strict: false,
  verbose: true,
  discriminator: true,
  // The schemas are constants of this program. To check them, Ajv would first compile the schema of all schemas,
  // which takes 0.1 s of CPU time at the first request.
  validateSchema: false,
}
const exact = compiledOnce(() => {
  const ajv = new Ajv(OPTIONS)
  return (schema) => ajv.compile(schema)
})
const coercing = compiledOnce(() => {
  const ajv = new Ajv({ ...OPTIONS, coerceTypes: 'array' })
  return (schema) => ajv.compile(schema)
})
const serializing = compiledOnce(() => (schema) => fastJsonStringify(schema))

/**
 * Compiles route schemas. Strings in a path, query or header are coerced to the numbers and booleans of the schema.
 * Bodies are not coerced, because Ajv would turn `[null]` into `null`, which means something else. Members are never
 * removed.
 */
export const validatorCompiler: FastifySchemaCompiler<FastifySchema> = ({ schema, httpPart }) => {
  const find = (httpPart === 'body' ? exact : coercing)(schema)
  const validate: Validate = (value) => {
    const compiled = find()
    const isValid = compiled(value)
    validate.errors = compiled.errors ?? null
    return isValid
  }
  return validate
}

/** Compiles reply schemas. */
export const serializerCompiler: FastifySerializerCompiler<FastifySchema> = ({ schema }) => {
  const find = serializing(schema)
  return (value) => find()(value)
}

/**
 * Returns a function that compiles a schema on its first use, because compiling all schemas at startup takes 0.2 s and
 * 100 MB of memory. Schemas of the same text are compiled once: routes share the schemas of errors, and a process can
 * have several listeners with the same routes.
 */
function compiledOnce<Compiled>(start: () => (schema: FastifySchema) => Compiled) {
  const known = new Map<string, Compiled>()
  let compile: ReturnType<typeof start> | null = null
  return (schema: FastifySchema): (() => Compiled) => {
    let compiled: Compiled | undefined
    return () => {
      if (compiled !== undefined) return compiled
      const text = JSON.stringify(schema)
      compile ??= start()
      compiled = known.get(text) ?? compile(schema)
      known.set(text, compiled)
      return compiled
    }
  }
}
