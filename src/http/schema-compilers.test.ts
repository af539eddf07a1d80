import { pino } from 'pino'
import { expect, it, onTestFinished } from 'vitest'
import { buildApp } from './app.ts'
import type { HttpApp } from './component.ts'
import { statusFalseReply } from './refusal.ts'
import { validatorCompiler } from './schema-compilers.ts'

const ROUTE = { method: 'POST', url: '/' }
const schema: object = { type: 'object', properties: { n: { type: 'integer' } } }

it('converts strings to numbers in a query, but not in a body', () => {
  for (const one of [schema, structuredClone(schema)]) {
    const body = validatorCompiler({ ...ROUTE, schema: one, httpPart: 'body' })
    const query = validatorCompiler({ ...ROUTE, schema: one, httpPart: 'querystring' })
    const parameters = { n: '5' }
    expect([query(parameters), parameters]).toEqual([true, { n: 5 }])
    expect(body({ n: '5' })).toBe(false)
    expect({ ...body }).toMatchObject({ errors: [{ instancePath: '/n', keyword: 'type' }] })
    expect(body({ n: 5 })).toBe(true)
  }
})

it('serializes each reply by the schema of its route, in several listeners', async () => {
  const other: object = { type: 'object', properties: { m: { type: 'string' } } }
  const register = async (app: HttpApp) => {
    for (const [path, reply] of Object.entries({ '/one': schema, '/two': other })) {
      app.get(path, { schema: { response: { 200: reply } } }, async () => ({ n: 5, m: 'x' }))
    }
  }
  for (const name of ['first', 'second']) {
    const app = await buildApp(
      {
        ...{ name, sameOriginOnly: false, statusOf: {}, register },
        ...{ limits: { bodyBytesMax: 1, requestTimeoutMs: 1_000 }, refusalReply: statusFalseReply },
      },
      { logger: pino({ level: 'silent' }), publicHosts: new Set() },
    )
    onTestFinished(() => app.close())
    expect((await app.inject('/one')).body).toBe('{"n":5}')
    expect((await app.inject('/two')).body).toBe('{"m":"x"}')
  }
})
