// The schemas of all routes. A schema is compiled only on first use, so without this test an invalid schema would be
// noticed late.
import assert from 'node:assert/strict'
import fastJsonStringify from 'fast-json-stringify'
import { pino } from 'pino'
import { expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../src/base/clock.ts'
import { type ComponentName, composeApp } from '../src/cli/composition/components.ts'
import { readSettings } from '../src/cli/composition/settings.ts'
import { buildApp } from '../src/http/index.ts'
import { validatorCompiler } from '../src/http/schema-compilers.ts'

const options = { logger: pino({ level: 'silent' }), publicHosts: new Set<string>() }
const PARTS = ['body', 'querystring', 'params', 'headers'] as const
const route = { method: '', url: '' }

/**
 * Compiles the schemas of a reply, which may have one schema for each content type. Returns the number of
 * schemas.
 */
function compileReply(reply: unknown): number {
  const { content } = reply as { content?: Record<string, { schema: object }> }
  const schemas = content === undefined ? [reply] : Object.values(content).map((one) => one.schema)
  for (const schema of schemas) fastJsonStringify(schema as object)
  return schemas.length
}

/** Compiles the schema of a part of a request by validating a value. Returns 1, the number of schemas. */
function compilePart(schema: unknown, httpPart: string): number {
  void validatorCompiler({ schema: schema as object, httpPart, ...route })({})
  return 1
}

it('rejects an invalid schema', () => {
  const broken = { type: 'object', properties: { a: { $ref: '#/nowhere' } } }
  expect(() => compilePart(broken, 'body')).toThrow('nowhere')
  expect(() => compileReply(broken)).toThrow('nowhere')
})

it.each([
  ['ledger', 100],
  ['rates', 5],
  ['samples', 5],
  ['converter', 2],
  ['gateway', 0],
] as const)('compiles every schema of %s', async (name: ComponentName, least) => {
  const { components, close } = await composeApp({
    ...{ names: [name], settings: readSettings({}), host: '127.0.0.1', clock: systemClock },
    ...{ logger: options.logger, version: '0.0.0' },
  })
  onTestFinished(close)
  const component = components.get(name)
  assert(component !== undefined)
  const schemas: Record<string, unknown>[] = []
  const app = await buildApp(
    {
      ...component,
      async register(app) {
        app.addHook('onRoute', ({ schema }) => {
          if (schema !== undefined) schemas.push({ ...schema })
        })
        await component.register(app)
      },
    },
    options,
  )
  onTestFinished(() => app.close())
  let compiled = 0
  for (const schema of schemas) {
    for (const part of PARTS)
      if (schema[part] !== undefined) compiled += compilePart(schema[part], part)
    for (const reply of Object.values(schema.response ?? {})) compiled += compileReply(reply)
  }
  expect(compiled).toBeGreaterThanOrEqual(least)
})
