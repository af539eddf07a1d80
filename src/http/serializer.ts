import { createRequire } from 'node:module'
import type { FastifySchema, FastifySerializerCompiler } from 'fastify'

type Compile = FastifySerializerCompiler<FastifySchema>

const PACKAGE = '@fastify/fast-json-stringify-compiler'

/** What was compiled, by schema: listeners of one process that have the same routes share it. */
const COMPILED = new WeakMap<object, ReturnType<Compile>>()

/**
 * Compiles the schemas of replies as Fastify does, but each when it is first replied with: that was
 * most of what a listener took to start.
 */
export function serializerCompiler(): Compile {
  let compile: Compile | null = null
  return (route) => {
    let serialize: ReturnType<Compile> | null = COMPILED.get(route.schema) ?? null
    return (value) => {
      if (serialize === null) {
        compile ??= serializersOfFastify()
        serialize = compile(route)
        COMPILED.set(route.schema, serialize)
      }
      return serialize(value)
    }
  }
}

/** The one that Fastify brings, found from where Fastify is: it does not hand it out. */
export function serializersOfFastify(): Compile {
  const fastify = createRequire(import.meta.url).resolve('fastify')
  const selected: () => (schemas: object) => Compile = createRequire(fastify)(PACKAGE)
  return selected()({})
}
