import { Ajv } from 'ajv'
import fastJsonStringify from 'fast-json-stringify'
import type { FastifySchema, FastifySchemaCompiler, FastifySerializerCompiler } from 'fastify'

type Validate = ReturnType<FastifySchemaCompiler<FastifySchema>>

/**
 * Compiles route schemas. Strings in a path, query or header are coerced to the numbers and booleans of the schema.
 * Bodies are not coerced, because Ajv would turn `[null]` into `null`, which means something else. Members are never
 * removed.
 */
export function validatorCompiler(): FastifySchemaCompiler<FastifySchema> {
  // With `verbose`, errors contain the violated schema, for their message.
  const options = {
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
  const exact = new Ajv(options)
  const coercing = new Ajv({ ...options, coerceTypes: 'array' })
  return ({ schema, httpPart }) =>
    onFirstUse(() => (httpPart === 'body' ? exact : coercing).compile(schema))
}

/** Compiles reply schemas, each on its first reply. */
export const serializerCompiler: FastifySerializerCompiler<FastifySchema> = ({ schema }) => {
  let serialize: ((value: unknown) => string) | null = null
  return (value) => {
    serialize ??= fastJsonStringify(schema)
    return serialize(value)
  }
}

/** Compiles on the first call, because compiling all schemas at startup takes 0.2 s and 100 MB of memory. */
function onFirstUse(compile: () => Validate): Validate {
  let compiled: Validate | null = null
  const validate: Validate = (value) => {
    compiled ??= compile()
    const isValid = compiled(value)
    validate.errors = compiled.errors ?? null
    return isValid
  }
  return validate
}
