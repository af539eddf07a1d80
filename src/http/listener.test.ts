import { connect } from 'node:net'
import { Readable, Writable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { pino } from 'pino'
import { Type } from 'typebox'
import { expect, it, onTestFinished, vi } from 'vitest'
import { exchange } from '../../test/support/raw-socket.ts'
import { CodedError } from '../base/coded-error.ts'
import { buildApp } from './app.ts'
import { readBody } from './body-readers.ts'
import type { HttpComponent } from './component.ts'
import { startListener } from './listener.ts'
import { HttpRefusal, statusFalseReply } from './refusal.ts'

/** A component with one route, which throws `error`. */
function thrower(error: Error): HttpComponent {
  return {
    name: 'thrower',
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
  ['one warning for a 503', new HttpRefusal(503, 'BUSY', 'busy'), [{ level: 40, msg: 'BUSY' }]],
  ['nothing for a 404', new HttpRefusal(404, 'NOTHING', 'nothing'), []],
])('logs %s (a warning has no stack)', async (_, error, expected) => {
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
})

it('logs at most 200 lines about one code in ten seconds, so that a flood of requests neither fills the disk nor hides another failure', async () => {
  const codes: string[] = []
  const sink = new Writable({
    write(line, _encoding, done) {
      codes.push(JSON.parse(String(line)).msg)
      done()
    },
  })
  const component: HttpComponent = {
    ...thrower(new Error()),
    async register(app) {
      app.get('/:code', async ({ params }) => {
        throw new HttpRefusal(503, `${Object(params).code}`, 'no')
      })
    },
  }
  const options = { logger: pino({ level: 'info' }, sink), publicHosts: new Set<string>() }
  const app = await buildApp(component, options)
  for (let n = 0; n < 201; n += 1) await app.inject('/BUSY')
  await app.inject('/STORE_FAILED')
  await app.close()
  expect([codes.length, codes.at(-2), codes.at(-1)]).toEqual([201, 'BUSY', 'STORE_FAILED'])
})

it('logs the cause of an unexpected error, and sends a reply without details', async () => {
  const lines: { msg: string; reason?: string }[] = []
  const sink = new Writable({
    write(line, _encoding, done) {
      lines.push(JSON.parse(String(line)))
      done()
    },
  })
  class FileError extends CodedError<'UNREADABLE'> {}
  const error = new FileError('UNREADABLE', 'tokens.json cannot be read: EACCES')
  const component: HttpComponent = {
    ...thrower(new HttpRefusal(503, 'STOPPED', 'unused')),
    async register(app) {
      app.get('/', async () => {
        throw error
      })
    },
  }
  const options = { logger: pino({ level: 'info' }, sink), publicHosts: new Set<string>() }
  const app = await buildApp(component, options)
  const reply = await app.inject('/')
  await app.close()
  expect(lines).toMatchObject([{ msg: 'INTERNAL', reason: 'tokens.json cannot be read: EACCES' }])
  expect(reply.body).not.toContain('tokens.json')
})

it('logs a failure once an hour for all requests that it affects, at level error if its code is an alarm', async () => {
  const lines: { level: number; msg: string; reason?: string; err?: unknown }[] = []
  const sink = new Writable({
    write(line, _encoding, done) {
      lines.push(JSON.parse(String(line)))
      done()
    },
  })
  const cause = new HttpRefusal(503, 'STOPPED', 'the disk failed')
  const component: HttpComponent = {
    ...thrower(cause),
    alarms: new Set(['STOPPED']),
    async register(app) {
      app.get('/', async () => {
        throw new HttpRefusal(503, 'STOPPED', 'the disk failed', { cause })
      })
    },
  }
  const options = { logger: pino({ level: 'info' }, sink), publicHosts: new Set<string>() }
  const app = await buildApp(component, options)
  for (let count = 0; count < 3; count += 1) await app.inject('/')
  expect(lines).toMatchObject([{ level: 50, msg: 'STOPPED', reason: 'the disk failed' }])
  // A constant, e.g. for a full budget, is the same error in the next overload, which may be weeks later.
  const laterMs = performance.now() + 3_600_000
  const time = vi.spyOn(performance, 'now').mockReturnValue(laterMs)
  for (let count = 0; count < 3; count += 1) await app.inject('/')
  time.mockRestore()
  await app.close()
  expect(lines.length).toBe(2)
  expect(lines[0]).not.toHaveProperty('err')
})

it('logs no error when a client disconnects before the first piece of a list, or during a search', async () => {
  const lines: { level: number; msg: string }[] = []
  const sink = new Writable({
    write(line, _encoding, done) {
      lines.push(JSON.parse(String(line)))
      done()
    },
  })
  const started = Promise.withResolvers<void>()
  const left = Promise.withResolvers<void>()
  const finished = Promise.withResolvers<void>()
  const searching = Promise.withResolvers<void>()
  const component: HttpComponent = {
    ...thrower(new Error('unused')),
    async register(app) {
      app.get('/', async () => 'here')
      app.get('/list', async (_request, reply) => {
        reply.raw.on('close', () => left.resolve())
        async function* pieces() {
          started.resolve()
          await finished.promise
          yield 'late'
        }
        return reply.send(Readable.from(pieces(), { objectMode: false }))
      })
      app.get('/search', async (_request, reply) => {
        const closed = new Promise<void>((resolve) => reply.raw.on('close', resolve))
        searching.resolve()
        await closed
        throw new HttpRefusal(503, 'SEARCH_INTERRUPTED', 'the client has disconnected')
      })
    },
  }
  const logger = pino({ level: 'info' }, sink)
  const options = { host: '127.0.0.1', port: 0, logger, publicHosts: new Set<string>() }
  const { url, close } = await startListener(component, options)
  onTestFinished(close)
  const client = connect(Number(new URL(url).port), '127.0.0.1')
  client.write('GET /list HTTP/1.1\r\nHost: a\r\n\r\n')
  await started.promise
  client.destroy()
  await left.promise
  finished.resolve()
  const searcher = connect(Number(new URL(url).port), '127.0.0.1')
  searcher.write('GET /search HTTP/1.1\r\nHost: a\r\n\r\n')
  await searching.promise
  searcher.destroy()
  for (let count = 0; count < 3; count += 1) expect(await (await fetch(url)).text()).toBe('here')
  expect(lines).toMatchObject([{ level: 30, msg: 'listening' }])
})

it('answers a request that has a Content-Type but no body, and the next requests on the connection', async () => {
  const component: HttpComponent = {
    ...thrower(new Error('unused')),
    async register(app) {
      app.addContentTypeParser('text/plain', async (request: FastifyRequest) => readBody(request))
      app.post('/', async ({ body }) => `${(body as Buffer).length} bytes`)
      app.get('/', async () => 'read')
    },
  }
  const logger = pino({ level: 'silent' })
  const options = { host: '127.0.0.1', port: 0, logger, publicHosts: new Set<string>() }
  const { url, close } = await startListener(component, options)
  onTestFinished(close)
  const head = 'Host: a\r\nContent-Type: text/plain\r\n'
  const requests = [
    `POST / HTTP/1.1\r\n${head}\r\n`,
    `POST / HTTP/1.1\r\n${head}Content-Length: 0\r\n\r\n`,
    `GET / HTTP/1.1\r\n${head}\r\n`,
    `POST / HTTP/1.1\r\n${head}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n`,
    `POST / HTTP/1.1\r\n${head}\r\n`,
  ]
  const expected = ['0 bytes', '0 bytes', 'read', '2 bytes', '0 bytes']
  const { replies } = await exchange(url, requests, { replies: 5 })
  expect(replies.map(({ body }) => body)).toEqual(expected)
  // Pipelined: sends all requests in one write.
  const together = await exchange(url, [requests.join('')], { replies: 5 })
  expect(together.replies.map(({ body }) => body)).toEqual(expected)
})

it('returns 404 for an unknown path, whatever the request body contains', async () => {
  const app = await buildApp(thrower(new Error('unused')), {
    logger: pino({ level: 'silent' }),
    publicHosts: new Set<string>(),
  })
  onTestFinished(() => app.close())
  for (const payload of ['', '{', '{}']) {
    const reply = await app.inject({
      method: 'POST',
      url: '/nowhere',
      headers: { host: 'a', 'content-type': 'application/json' },
      payload,
    })
    expect([reply.statusCode, reply.json().code]).toEqual([404, 'PATH_UNKNOWN'])
  }
})

it('discards the body of a request to an unknown path, and answers the next requests on the connection', async () => {
  const component: HttpComponent = {
    ...thrower(new Error('unused')),
    async register(app) {
      app.get('/', async () => 'read')
    },
  }
  const options = {
    host: '127.0.0.1',
    port: 0,
    logger: pino({ level: 'silent' }),
    publicHosts: new Set<string>(),
  }
  const { url, close } = await startListener(component, options)
  onTestFinished(close)
  const unserved = 'PATCH /nowhere HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n'
  const served = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
  const { replies } = await exchange(
    url,
    [`${unserved}Content-Length: 6\r\n\r\n{"`, `n":1${served}${unserved}`, `\r\n${served}`],
    { replies: 4 },
  )
  expect(replies.map(({ status }) => status)).toEqual([404, 200, 404, 200])
  expect(replies.map(({ headers }) => headers.get('connection'))).not.toContain('close')
})

it('returns 400 for an invalid parameter, header or body, with a message that names the invalid part', async () => {
  const component: HttpComponent = {
    ...thrower(new Error()),
    async register(app) {
      const limit = Type.Object(
        {
          limit: Type.Integer({ minimum: 0 }),
          order: Type.Optional(Type.Enum(['oldest', 'newest'])),
          position: Type.Optional(
            Type.String({ pattern: '^\\d+[.]\\d+$', description: '`<height>.<index>`' }),
          ),
        },
        { additionalProperties: false },
      )
      const change = Type.Unsafe({
        type: 'object',
        oneOf: [
          Type.Object({ method: Type.Literal('add'), item: Type.Object({}) }),
          Type.Object({ method: Type.Literal('drop') }),
        ],
        discriminator: { propertyName: 'method' },
      })
      const union = Type.Union([
        Type.Object({ name: Type.String() }),
        Type.Array(change),
        Type.Null(),
      ])
      const headers = Type.Object({ 'x-limit': Type.Integer() })
      app.addContentTypeParser(
        'application/json',
        { parseAs: 'string' },
        async (_: unknown, body: string) => JSON.parse(body),
      )
      app.get('/query', { schema: { querystring: limit } }, async () => 'ok')
      app.get('/path/:limit', { schema: { params: limit } }, async () => 'ok')
      app.get('/headers', { schema: { headers } }, async () => 'ok')
      app.post('/body', { schema: { body: Type.Array(limit) } }, async () => 'ok')
      app.post('/union', { schema: { body: union } }, async () => 'ok')
    },
  }
  const logger = pino({ level: 'silent' })
  const app = await buildApp(component, { logger, publicHosts: new Set<string>() })
  const messageOf = async (url: string, more: object = {}) => {
    const reply = await app.inject({ url, ...more })
    const { code, message } = reply.json()
    expect([reply.statusCode, code]).toEqual([400, 'REQUEST_INVALID'])
    return message
  }
  const send = (payload: unknown) => ({
    method: 'POST',
    payload: JSON.stringify(payload),
    headers: { 'content-type': 'application/json' },
  })
  expect(await messageOf('/query?limit=x')).toBe('limit must be an integer')
  expect(await messageOf('/query')).toBe('limit is missing')
  expect(await messageOf('/query?limit=1&other=2')).toBe('other is unknown')
  expect(await messageOf('/path/x')).toBe('limit must be an integer')
  expect(await messageOf('/headers', { headers: { 'x-limit': 'x' } })).toBe(
    'x-limit must be an integer',
  )
  expect(await messageOf('/body', send([{ limit: 1 }, { limit: 'x' }]))).toBe(
    'body/1/limit must be an integer',
  )
  expect(await messageOf('/body', send({}))).toBe('body must be an array')
  expect(await messageOf('/query?limit=-1')).toBe('limit must be 0 or more')
  expect(await messageOf('/query?limit=1&order=x')).toBe('order must be oldest or newest')
  expect(await messageOf('/query?limit=1&position=x')).toBe(
    'position has the wrong form: `<height>.<index>`',
  )
  expect(await messageOf('/union', send(5))).toBe('body must be an object or an array')
  expect(await messageOf('/union', send([{ method: 'add', item: {} }, 1]))).toBe(
    'body/1 must be an object',
  )
  expect(await messageOf('/union', send([{ method: 'x' }]))).toBe(
    'body/0/method must be add or drop',
  )
  expect(await messageOf('/union', send([{}]))).toBe('body/0/method must be add or drop')
  expect(await messageOf('/union', send([{ method: 'add' }]))).toBe('body/0/item is missing')
  await app.close()
})
