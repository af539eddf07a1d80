import { Writable } from 'node:stream'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import type { HttpComponent } from './component.ts'
import { buildApp } from './listener.ts'
import { HttpRefusal, statusFalseReply } from './refusal.ts'

/** A component whose one route throws `error`. */
function thrower(error: Error): HttpComponent {
  return {
    name: 'thrower',
    defaultPort: 0,
    limits: { bodyBytesMax: 1_000, requestTimeoutMs: 1_000 },
    sameOriginOnly: false,
    statusOf: {},
    refusalReply: statusFalseReply,
    async register(app) {
      app.get('/', async () => {
        throw error
      })
    },
  }
}

it.each([
  ['being busy', new HttpRefusal(503, 'BUSY', 'come again'), [{ level: 40, msg: 'BUSY' }]],
  ['a refusal', new HttpRefusal(404, 'NOTHING', 'nothing'), []],
])(
  '%s is no error of ours: at most one line is logged, without a stack',
  async (_, error, expected) => {
    const lines: { level: number; msg: string; err?: unknown }[] = []
    const sink = new Writable({
      write(line, _encoding, done) {
        lines.push(JSON.parse(String(line)))
        done()
      },
    })
    const options = { logger: pino({ level: 'info' }, sink), publicHosts: new Set<string>() }
    const app = await buildApp(thrower(error), options)
    const reply = await app.inject('/')
    await app.close()
    expect(reply.statusCode).toBe(error.status)
    expect(lines).toMatchObject(expected)
    expect(lines.length).toBe(expected.length)
    expect(lines.every((line) => line.err === undefined)).toBe(true)
  },
)
