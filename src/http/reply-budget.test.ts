import { once } from 'node:events'
import { IncomingMessage, ServerResponse } from 'node:http'
import { connect, Socket } from 'node:net'
import { Readable } from 'node:stream'
import { pino } from 'pino'
import { expect, it, onTestFinished } from 'vitest'
import { until } from '../../test/support/until.ts'
import type { HttpApp, HttpComponent } from './component.ts'
import { startListener } from './listener.ts'
import { statusFalseReply } from './refusal.ts'
import { ReplyBudget, ReplyStream } from './reply-budget.ts'

const MI = 1024 * 1024
/** Length of a reply: more bytes than the system buffers for a client that does not read. */
const LONG = 32 * MI
const BUSY = { status: 503, code: 'REPLIES_BUSY' }

const NO_PARTS: AsyncIterable<string> = { async *[Symbol.asyncIterator]() {} }
const response = () => new ServerResponse(new IncomingMessage(new Socket()))
const refused = (budget: ReplyBudget, bytes: number) => {
  try {
    budget.require(bytes)
    return null
  } catch (error) {
    return error
  }
}

async function listen(register: (app: HttpApp) => void, replyBudget = new ReplyBudget(MI)) {
  const component: HttpComponent = {
    name: 'replies',
    limits: { bodyBytesMax: 1_000, requestTimeoutMs: 30_000 },
    sameOriginOnly: false,
    statusOf: {},
    refusalReply: statusFalseReply,
    register: async (app) => register(app),
  }
  const shared = { logger: pino({ level: 'silent' }), publicHosts: new Set<string>(), replyBudget }
  const { url, close } = await startListener(component, { host: '127.0.0.1', port: 0, ...shared })
  onTestFinished(close)
  return url
}

/** Sends `GET <path>` and reads nothing. Resolves when the reply has begun to arrive. */
async function unread(url: string, path: string): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {})
  socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`)
  await once(socket, 'readable')
  return socket
}

/** Without compression, because the tests are about the bytes that are sent. */
const PLAIN = { headers: { 'accept-encoding': 'identity' } }

it('sends one slice of 64 KiB per event-loop iteration, however quickly a client reads', async () => {
  const stream = new ReplyStream(NO_PARTS).start(response(), new ReplyBudget(), 'x'.repeat(MI))
  let sinceIteration = 0
  let most = 0
  stream.on('data', ({ length }: Buffer) => {
    sinceIteration += length
    most = Math.max(most, sinceIteration)
  })
  const count = () => {
    sinceIteration = 0
    if (!stream.readableEnded) setImmediate(count)
  }
  count()
  await once(stream, 'end')
  expect(most).toBe(64 * 1024)
})

it('does not cut a character of two units between two slices', async () => {
  for (const before of [65_534, 65_535, 65_536, 131_069, 131_070, 131_071]) {
    const text = `${'x'.repeat(before)}😀${'y'.repeat(MI)}`
    const stream = new ReplyStream(NO_PARTS).start(response(), new ReplyBudget(), text)
    const sent = Buffer.concat(await stream.toArray())
    expect([before, sent.equals(Buffer.from(text))]).toEqual([before, true])
  }
})

it('accepts any short reply, long replies within the budget, and any reply if no other is unsent', () => {
  const budget = new ReplyBudget(2 * MI)
  expect(refused(budget, 9 * MI)).toBeNull()
  const slow = response()
  budget.set(slow, MI)
  expect(refused(budget, MI)).toBeNull()
  expect(refused(budget, MI + 1)).toMatchObject(BUSY)
  expect(refused(budget, 16 * 1024)).toBeNull()
  slow.destroy()
  slow.emit('close')
  budget.set(slow, MI)
  expect(refused(budget, 9 * MI)).toBeNull()
})

it('aborts the replies whose clients have accepted nothing for 10 seconds if another reply needs room', () => {
  const clock = { ms: 0, now: () => clock.ms }
  const budget = new ReplyBudget(2 * MI, clock)
  const [stalled, slow, reading] = [response(), response(), response()]
  budget.set(stalled, MI)
  budget.set(slow, MI)
  budget.set(reading, MI, false)
  clock.ms = 9_999
  budget.progress(slow)
  expect(refused(budget, 100_000)).toMatchObject(BUSY)
  clock.ms = 10_000
  expect(refused(budget, 100_000)).toMatchObject(BUSY)
  expect([stalled, slow, reading].map(({ destroyed }) => destroyed)).toEqual([true, false, false])
})

it('lets one streamed reply after the other read on as other replies are sent', async () => {
  const budget = new ReplyBudget(2 * MI)
  const [sent, left, first, second] = [response(), response(), response(), response()]
  budget.set(sent, 2 * MI)
  const order: string[] = []
  const waiting = [left, first, second].map(async (reply, at) => {
    const may = await budget.room(reply)
    order.push(`${at} ${may}`)
    budget.set(reply, MI)
  })
  left.destroy()
  await until('the first waits no longer', () => order.length > 0)
  budget.set(sent, 0)
  await Promise.all(waiting)
  expect(order).toEqual(['0 false', '1 true', '2 true'])
})

it.each(['text', 'stream', 'reply-stream'])(
  'refuses long replies of all listeners while a %s reply is unread, and accepts them after its client disconnects',
  async (kind) => {
    const parts = async function* () {
      for (let at = 0; at < LONG / MI; at += 1) yield 'x'.repeat(MI)
    }
    const register = (app: HttpApp) => {
      app.get('/text', async () => 'x'.repeat(LONG))
      app.get('/stream', async (_, reply) =>
        reply.send(Readable.from(parts(), { objectMode: false })),
      )
      app.get('/reply-stream', async (_, reply) => reply.send(new ReplyStream(parts())))
      app.get('/short', async () => 'short')
      app.get('/short-stream', async (_, reply) => reply.send(Readable.from(['short'])))
    }
    const budget = new ReplyBudget(MI)
    const url = await listen(register, budget)
    const other = await listen(register, budget)
    const slow = await unread(url, `/${kind}`)
    for (const path of ['/text', '/reply-stream']) {
      // The budget is not used up before the system has buffered a part of the unread reply.
      await until(`${path} is refused`, async () => {
        const reply = await fetch(other + path, PLAIN)
        if (reply.status === 200) return reply.body?.cancel().then(() => false) ?? false
        expect([reply.status, await reply.json()]).toMatchObject([503, { code: 'REPLIES_BUSY' }])
        return true
      })
    }
    expect(await (await fetch(`${other}/short`)).text()).toBe('short')
    expect(await (await fetch(`${other}/short-stream`)).text()).toBe('short')
    slow.destroy()
    await until('the room is free', async () => {
      const reply = await fetch(`${other}/text`, PLAIN)
      const { length } = await reply.text()
      return length === LONG && reply.headers.get('content-length') === `${LONG}`
    })
  },
)

it('holds one part of a streamed reply in memory, and reads the next when the client has read it', async () => {
  let read = 0
  const url = await listen((app) => {
    app.get('/', async (_, reply) => {
      async function* parts() {
        for (; read < 4; read += 1) yield 'x'.repeat(LONG / 4)
      }
      return reply.send(new ReplyStream(parts()))
    })
  })
  const client = await unread(url, '/')
  for (let count = 0; count < 20; count += 1) await (await fetch(`${url}/nowhere`)).text()
  expect(read).toBe(0)
  client.resume()
  await until('all parts are read', () => read === 4)
})

it('reads nothing for a HEAD of a list, and sends a 304 without Content-Length', async () => {
  let read = 0
  const url = await listen((app) => {
    app.get('/list', async (_, reply) => {
      async function* parts() {
        for (; ; read += 1) yield 'x'
      }
      return reply.send(new ReplyStream(parts()))
    })
    app.get('/same', async (_, reply) => reply.code(304).send())
    app.get('/text', async () => 'x'.repeat(LONG))
  })
  const heads = await Promise.all(
    ['/list', '/same', '/text'].map(async (path) => {
      const { status, headers } = await fetch(url + path, { method: 'HEAD', ...PLAIN })
      return [status, headers.get('content-length')]
    }),
  )
  expect([heads, read]).toEqual([
    [
      [200, null],
      [304, null],
      [200, `${LONG}`],
    ],
    0,
  ])
})
