import { EventEmitter, once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect, Socket } from 'node:net'
import { Readable } from 'node:stream'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import type { HttpComponent } from './component.ts'
import { startListener } from './listener.ts'
import { BodyBudget, ReplyBudget } from './memory-budgets.ts'
import { statusFalseReply } from './refusal.ts'

const MI = 1024 * 1024
/** Length of a reply: more bytes than the system buffers for a client that does not read. */
const LONG = 32 * MI

/** Yields a stream of length LONG. */
async function* pieces() {
  for (let at = 0; at < LONG / MI; at += 1) yield 'x'.repeat(MI)
}

it('reserves memory for a body until its response closes, and rejects bodies beyond the budget', () => {
  const budget = new BodyBudget(2 * MI)
  const reserve = ({ length, transfer }: { length?: string; transfer?: string }) => {
    // `reserve` only waits for the event `close` of the response.
    const response = new EventEmitter() as unknown as ServerResponse<IncomingMessage>
    const request: Parameters<BodyBudget['reserve']>[0] = { growBody: null }
    const unset = { site: undefined, origin: undefined, encoding: undefined, upgrade: undefined }
    const others = { hosts: 1, host: 'a', ...unset }
    const headers = { ...others, length, transfer }
    const refusal = budget.reserve(request, headers, 9 * MI, response)
    return { request, refusal, close: () => void response.emit('close') }
  }
  const busy = { status: 503, code: 'BODIES_BUSY' }
  const first = reserve({ length: `${2 * MI}` })
  expect(first.refusal).toBeNull()
  const second = reserve({ length: '70000' })
  expect(second.refusal).toMatchObject(busy)
  second.close()
  first.close()
  // A body of unknown length reserves 1 MiB at first, and more when it grows.
  const third = reserve({ transfer: 'chunked' })
  expect(third.refusal).toBeNull()
  expect(third.request.growBody?.(2 * MI)).toBeNull()
  expect(third.request.growBody?.(2 * MI + 1)).toMatchObject(busy)
  expect(reserve({ length: '70000' }).refusal).toMatchObject(busy)
  third.close()
  expect(reserve({ length: `${2 * MI}` }).refusal).toBeNull()
})

it('accepts any short reply, long replies within the budget, and any reply if no other is pending', () => {
  const budget = new ReplyBudget(2 * MI)
  const [slow, slower] = [new Socket(), new Socket()]
  expect(budget.refusal('x'.repeat(3 * MI))).toBeNull()
  expect(budget.add(slow, 'x'.repeat(MI))).toBe(MI)
  expect(budget.refusal('x'.repeat(MI))).toBeNull()
  expect(budget.refusal('x'.repeat(MI + 1))).toMatchObject({ status: 503, code: 'REPLIES_BUSY' })
  expect(budget.add(slower, Buffer.alloc(MI + 1))).toBe(MI + 1)
  // An object stands for a stream, whose length is unknown.
  expect(budget.refusal({})).toMatchObject({ code: 'REPLIES_BUSY' })
  for (const short of ['x'.repeat(64 * 1024), null, undefined]) {
    expect(budget.refusal(short)).toBeNull()
    expect(budget.add(slow, short)).toBe(0)
  }
  budget.remove(slower, MI + 1)
  expect(budget.refusal({})).toBeNull()
  budget.forget(slow)
  budget.remove(slow, MI)
  expect(budget.refusal(Buffer.alloc(2 * MI + 1))).toBeNull()
})

it('closes only the connections that have waited longest when twice the budget is exceeded', () => {
  const budget = new ReplyBudget(2 * MI)
  const sockets = Array.from({ length: 6 }, () => new Socket())
  for (const socket of sockets) budget.add(socket, 'x'.repeat(MI))
  expect(sockets.map(({ destroyed }) => destroyed)).toEqual([true, true, ...Array(4).fill(false)])
  // The connection of the newest write stays open, even if this write alone exceeds twice the budget.
  const alone = new Socket()
  budget.add(alone, 'x'.repeat(9 * MI))
  expect([sockets.every(({ destroyed }) => destroyed), alone.destroyed]).toEqual([true, false])
})

it('subtracts the pending bytes of a closed connection only once', () => {
  const budget = new ReplyBudget(2 * MI)
  const [closed, slow] = [new Socket(), new Socket()]
  const length = budget.add(closed, 'x'.repeat(MI))
  budget.forget(closed)
  budget.remove(closed, length)
  budget.add(slow, 'x'.repeat(MI))
  expect(budget.refusal('x'.repeat(MI))).toBeNull()
  expect(budget.refusal('x'.repeat(MI + 1))?.code).toBe('REPLIES_BUSY')
  budget.remove(slow, MI)
  expect(budget.refusal('x'.repeat(9 * MI))).toBeNull()
})

it.each(['text', 'stream'])(
  'rejects requests for long replies while a %s reply waits for a slow client, and accepts them after the client disconnects',
  async (kind) => {
    const component: HttpComponent = {
      name: 'replies',
      limits: { bodyBytesMax: 1_000, requestTimeoutMs: 30_000, repliesMax: MI },
      sameOriginOnly: false,
      statusOf: {},
      refusalReply: statusFalseReply,
      async register(app) {
        app.get('/text', async () => 'x'.repeat(LONG))
        app.get('/stream', async (_, reply) => {
          return reply.send(Readable.from(pieces(), { objectMode: false }))
        })
        app.get('/short', async () => 'short')
      },
    }
    const logger = pino({ level: 'silent' })
    const options = { host: '127.0.0.1', port: 0, logger, publicHosts: new Set<string>() }
    const { url, close } = await startListener(component, options)
    const slow = connect(Number(new URL(url).port), '127.0.0.1')
    slow.on('error', () => {})
    slow.write(`GET /${kind} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`)
    // The reply has begun to arrive, and the client reads nothing.
    await once(slow, 'readable')
    for (;;) {
      const refused = await fetch(`${url}/text`)
      if (refused.status === 200) {
        // The budget was not used up yet, because the system still buffered the first reply.
        await refused.body?.cancel()
        continue
      }
      expect([refused.status, await refused.json()]).toMatchObject([
        503,
        { status: false, code: 'REPLIES_BUSY' },
      ])
      break
    }
    expect(await (await fetch(`${url}/short`)).text()).toBe('short')
    slow.destroy()
    for (;;) {
      const reply = await fetch(`${url}/text`)
      const { length } = await reply.text()
      if (reply.status === 503) continue
      expect(length).toBe(LONG)
      break
    }
    await close()
  },
)
