// Schemas are compiled when a route is first called with one: what cannot be compiled is found here.
import assert from 'node:assert/strict'
import { pino } from 'pino'
import { expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../src/base/clock.ts'
import { type ComponentName, composeApp } from '../src/cli/composition/components.ts'
import { readSettings } from '../src/cli/settings.ts'
import { buildApp } from '../src/http/index.ts'
import { serializersOfFastify } from '../src/http/serializer.ts'
import { validatorCompiler } from '../src/http/validator.ts'

const logger = pino({ level: 'silent' })
const validators = validatorCompiler()
const serializers = serializersOfFastify()
const PARTS = ['body', 'querystring', 'params', 'headers'] as const

/** Compiles what a reply is made by; some schemas are by type of content. Gives how many there were. */
function compileReply(reply: unknown): number {
  const { content } = reply as { content?: Record<string, { schema: object }> }
  const schemas = content === undefined ? [reply] : Object.values(content).map((one) => one.schema)
  for (const schema of schemas) serializers({ schema: schema as object, method: '', url: '' })
  return schemas.length
}

/** Compiles what a part of a request is held against, by holding something against it. */
function compilePart(schema: unknown, httpPart: string): number {
  void validators({ schema: schema as object, httpPart, method: '', url: '' })({})
  return 1
}

it('what cannot be compiled is an error', () => {
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
] as const)('every schema of %s can be compiled', async (name: ComponentName, least) => {
  const { components, close } = await composeApp({
    ...{ names: [name], settings: readSettings({}), host: '127.0.0.1', clock: systemClock, logger },
    version: '0.0.0',
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
    { logger, publicHosts: new Set() },
  )
  onTestFinished(() => app.close())
  await app.ready()
  let compiled = 0
  for (const schema of schemas) {
    for (const part of PARTS)
      if (schema[part] !== undefined) compiled += compilePart(schema[part], part)
    for (const reply of Object.values(schema.response ?? {})) compiled += compileReply(reply)
  }
  expect(compiled).toBeGreaterThanOrEqual(least)
})
