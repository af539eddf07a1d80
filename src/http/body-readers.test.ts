import { EventEmitter, once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import { pino } from 'pino'
import { afterEach, expect, it, onTestFinished, vi } from 'vitest'
import { exchange } from '../../test/support/raw-socket.ts'
import { arrivingBody, readBody } from './body-readers.ts'
import type { HttpComponent } from './component.ts'
import { startListener } from './listener.ts'
import { statusFalseReply } from './refusal.ts'

const MI = 1024 * 1024
const BUSY = { status: false, code: 'BODIES_BUSY' }

/** Calls `readBody` with a request whose events come from `stream`. */
function reading(stream: EventEmitter, bytesMax: number, headers: Record<string, string> = {}) {
  const raw = stream as unknown as IncomingMessage
  return readBody({ raw, headers } as FastifyRequest, bytesMax)
}

/** Starts a listener that replies with the length of a body. `/lengths` reads the whole body, `/streamed` pieces. */
async function listen(bodiesBytesMax: number) {
  const sockets = new Set<Socket>()
  const component: HttpComponent = {
    name: 'tested',
    limits: { bodyBytesMax: 10 * MI, bodiesBytesMax, requestTimeoutMs: 30_000 },
    sameOriginOnly: false,
    statusOf: {},
    refusalReply: statusFalseReply,
    async register(app) {
      app.addHook('onRequest', async ({ raw }) => void sockets.add(raw.socket))
      app.addContentTypeParser('*', async (request: FastifyRequest) => readBody(request))
      app.post('/lengths', async ({ body }) => `${(body as Buffer).length} bytes`)
      await app.register(async (scope) => {
        scope.removeAllContentTypeParsers()
        scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
        scope.post('/streamed', async (request) => {
          let length = 0
          let pieces = 0
          for await (const piece of arrivingBody(request, { windowMs: 30_000, bytesMin: 1 })) {
            length += piece.length
            pieces += 1
            if ((request.query as { slow?: string }).slow === '1') await setImmediate()
          }
          return `${length} bytes in ${pieces < 1_000 ? 'few' : 'many'} pieces`
        })
      })
    },
  }
  const logger = pino({ level: 'silent' })
  const options = { host: '127.0.0.1', port: 0, logger, publicHosts: new Set<string>() }
  const { url, close } = await startListener(component, options)
  onTestFinished(close)
  return { url, sockets }
}

it('copies each piece when it arrives and keeps no reference to it', async () => {
  const request = new EventEmitter()
  const body = reading(request, MI)
  const piece = Buffer.alloc(1)
  for (let count = 0; count < 100_000; count += 1) {
    piece[0] = count
    request.emit('data', piece)
  }
  request.emit('end')
  const expected = Buffer.alloc(100_000).map((_, index) => index)
  expect((await body).equals(expected)).toBe(true)
})

it.each([
  ['exactly at the limit', 1_000, {}, null],
  ['one byte over the limit', 1_001, {}, 'BODY_TOO_LARGE'],
  ['with a Content-Length over the limit', 0, { 'content-length': '1001' }, 'BODY_TOO_LARGE'],
  ['shorter than its Content-Length', 9, { 'content-length': '10' }, 'CONTENT_LENGTH_WRONG'],
  ['longer than its Content-Length', 11, { 'content-length': '10' }, 'CONTENT_LENGTH_WRONG'],
])(
  'limits the length of a body and checks Content-Length: a body %s',
  async (_, length, headers, code) => {
    const stream = new PassThrough()
    const body = reading(stream, 1_000, headers).then(
      (bytes) => bytes.length,
      (error) => error.code,
    )
    stream.end(Buffer.alloc(length))
    expect(await body).toBe(code ?? length)
  },
)

it('rejects a body with BODY_INCOMPLETE when the connection closes before the end, or before it is read', async () => {
  const stream = new PassThrough()
  const body = reading(stream, 1_000)
  stream.write('half')
  stream.destroy()
  const incomplete = { status: 400, code: 'BODY_INCOMPLETE' }
  await expect(body).rejects.toMatchObject(incomplete)
  await expect(reading(stream, 1_000)).rejects.toMatchObject(incomplete)
})

it('reads at most 64 KiB of tiny chunks from a connection per event-loop iteration', async () => {
  const { url, sockets } = await listen(10 * MI)
  let before = 0
  let mostBytes = 0
  let isDone = false
  const measured = (async () => {
    while (!isDone) {
      const bytes = [...sockets].reduce((sum, { bytesRead }) => sum + bytesRead, 0)
      mostBytes = Math.max(mostBytes, bytes - before)
      before = bytes
      await setImmediate()
    }
  })()
  const head =
    'HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n'
  const chunks = `${'1\r\nx\r\n'.repeat(60_000)}0\r\n\r\n`
  const bodies: (string | undefined)[] = []
  for (const path of ['/lengths', '/streamed', '/streamed?slow=1', '/nowhere']) {
    const { replies } = await exchange(url, [`POST ${path} ${head}${chunks}`], { replies: 1 })
    bodies.push(replies[0]?.body)
  }
  isDone = true
  await measured
  expect(bodies.slice(0, 3)).toEqual([
    '60000 bytes',
    '60000 bytes in many pieces',
    // The pieces that arrive while the reader is busy are joined into one piece.
    '60000 bytes in few pieces',
  ])
  expect(mostBytes).toBeGreaterThan(0)
  expect(mostBytes).toBeLessThanOrEqual(64 * 1024)
})

it('counts a chunked body as it grows, and returns 503 when the memory budget is used up', async () => {
  const { url } = await listen(10 * MI)
  const head = 'POST /lengths HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\n'
  const chunk = `${(6 * MI).toString(16)}\r\n${'x'.repeat(6 * MI)}\r\n`
  const chunked = [`${head}Transfer-Encoding: chunked\r\n\r\n${chunk}0\r\n\r\n`]
  const alone = await exchange(url, chunked, { replies: 1 })
  expect(alone.replies[0]?.body).toBe('6291456 bytes')
  const first = connect(Number(new URL(url).port), '127.0.0.1')
  onTestFinished(() => void first.destroy())
  first.write(`${head}Content-Length: ${5 * MI}\r\nExpect: 100-continue\r\n\r\n`)
  expect(String(await once(first, 'data'))).toBe('HTTP/1.1 100 Continue\r\n\r\n')
  // The first request reserves 5 of 10 MiB, so the chunked body is rejected when it needs more than 5 MiB.
  const { replies } = await exchange(url, chunked, { replies: 1 })
  expect(replies[0]?.status).toBe(503)
  expect(JSON.parse(replies[0]?.body ?? '')).toMatchObject(BUSY)
  first.write('x'.repeat(5 * MI))
  expect(String(await once(first, 'data'))).toMatch(/^HTTP\/1.1 200 OK\r\n[\s\S]*5242880 bytes$/)
  expect((await exchange(url, chunked, { replies: 1 })).replies[0]?.status).toBe(200)
})

afterEach(() => vi.useRealTimers())

/** A request whose body the test emits. */
class FakeRequest extends EventEmitter {
  readonly socket = new EventEmitter()
  isFlowing = true
  readableEnded = false
  destroyed = false

  pause(): this {
    this.isFlowing = false
    return this
  }

  resume(): this {
    this.isFlowing = true
    return this
  }
}

const PACE = { windowMs: 1_000, bytesMin: 10 }
function arriving(request = new FakeRequest()) {
  const pacedSockets = new WeakSet<object>()
  const fastifyRequest = { raw: request, server: { pacedSockets } } as unknown as FastifyRequest
  const isPaced = () => pacedSockets.has(request.socket)
  return { request, body: arrivingBody(fastifyRequest, PACE), isPaced }
}
const BROKEN = { code: 'BODY_INCOMPLETE' }

it('yields a body piece by piece and pauses the request between pieces', async () => {
  const { request, body, isPaced } = arriving()
  const first = body.next()
  expect(request.isFlowing).toBe(true)
  expect(isPaced()).toBe(true)
  request.emit('data', Buffer.from('one'))
  expect(await first).toEqual({ done: false, value: Buffer.from('one') })
  expect(request.isFlowing).toBe(false)
  const second = body.next()
  expect(request.isFlowing).toBe(true)
  request.emit('end')
  request.emit('close')
  expect(await second).toEqual({ done: true, value: undefined })
  expect(isPaced()).toBe(false)
})

it.each(['close', 'error'])(
  'rejects the pending piece when the request emits %s before its end',
  async (event) => {
    const { request, body, isPaced } = arriving()
    const piece = body.next()
    request.emit(event, new Error('reset'))
    await expect(piece).rejects.toMatchObject(BROKEN)
    expect(isPaced()).toBe(false)
  },
)

it('returns at once if the body is already complete, and rejects at once if the request was destroyed', async () => {
  const ended = Object.assign(new FakeRequest(), { readableEnded: true })
  expect(await arriving(ended).body.next()).toEqual({ done: true, value: undefined })
  const destroyed = Object.assign(new FakeRequest(), { destroyed: true })
  await expect(arriving(destroyed).body.next()).rejects.toMatchObject(BROKEN)
})

it('rejects a body with REQUEST_TIMEOUT if the client is too slow, but not if the reader is slow', async () => {
  vi.useFakeTimers()
  const { request, body } = arriving()
  const first = body.next()
  request.emit('data', Buffer.alloc(10))
  await first
  // No call of `next` is pending, so only the reader is slow.
  vi.advanceTimersByTime(10_000)
  const second = body.next()
  vi.advanceTimersByTime(1_000)
  request.emit('data', Buffer.alloc(10))
  expect((await second).value?.length).toBe(10)
  const third = body.next()
  vi.advanceTimersByTime(1_000)
  request.emit('data', Buffer.alloc(9))
  expect((await third).value?.length).toBe(9)
  const last = body.next()
  const rejected = expect(last).rejects.toMatchObject({ code: 'REQUEST_TIMEOUT' })
  vi.advanceTimersByTime(1_000)
  await rejected
})

it('pauses the request and removes its listeners when the reader stops early', async () => {
  const { request, body } = arriving()
  const piece = body.next()
  request.emit('data', Buffer.from('one'))
  await piece
  request.resume()
  await body.return(undefined)
  expect([request.isFlowing, request.listenerCount('data')]).toEqual([false, 0])
})
