import assert from 'node:assert/strict'
import { pino } from 'pino'
import { expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../src/base/clock.ts'
import { type ComponentName, composeApp } from '../src/cli/composition/components.ts'
import { readSettings } from '../src/cli/settings.ts'
import { buildApp, type HttpComponent, statusFalseReply } from '../src/http/index.ts'

const options = { logger: pino({ level: 'silent' }), publicHosts: new Set<string>() }
const PARTS = ['body', 'querystring', 'params', 'headers'] as const

it.each(['body', 'response'])('rejects a %s schema that cannot be compiled', async (part) => {
  const broken = { type: 'object', properties: { a: { $ref: '#/nowhere' } } }
  const component: HttpComponent = {
    name: 'broken',
    defaultPort: 0,
    limits: { bodyBytesMax: 1, requestTimeoutMs: 1_000 },
    sameOriginOnly: false,
    statusOf: {},
    refusalReply: statusFalseReply,
    async register(app) {
      const schema = part === 'body' ? { body: broken } : { response: { 200: broken } }
      app.post('/', { schema }, async () => ({}))
    },
  }
  await expect(buildApp(component, options)).rejects.toThrow('nowhere')
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
  let compiled = 0
  const app = await buildApp(
    {
      ...component,
      async register(app) {
        app.addHook('onRoute', ({ schema = {} }) => {
          const parts = PARTS.filter((part) => schema[part] !== undefined)
          compiled += parts.length + Object.keys(schema.response ?? {}).length
        })
        await component.register(app)
      },
    },
    options,
  )
  onTestFinished(() => app.close())
  expect(compiled).toBeGreaterThanOrEqual(least)
})
