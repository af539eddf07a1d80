import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { LedgerClient } from '../../src/client/index.ts'
import { broken, collected, fakeNode, json, noted } from './fake-node.ts'

const SLOW = json(408, { status: false, code: 'REQUEST_TIMEOUT', message: 'slow' })
const BUSY = json(503, { status: false, code: 'WRITER_BUSY', message: 'busy' })
const GATEWAY = (response: Parameters<typeof broken>[0]) => {
  response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad gateway</h1>')
}
const CREATED = json(200, { status: true, id: 'x' }, { 'ledger-position': '1/4.0', etag: '"4.0"' })

describe('a change that fails temporarily', () => {
  it('a change that fails temporarily is repeated with the same idempotency key until the node answers', async () => {
    const node = await fakeNode(BUSY, broken, GATEWAY, SLOW, CREATED)
    const timing = noted()
    const fruit = new LedgerClient(node.url, { timing }).database('fruit')
    expect(await fruit.create({ n: 1 })).toEqual({ id: 'x', position: '4.0', etag: '"4.0"' })
    expect(timing.waits).toEqual([100, 200, 400, 800])
    const keys = node.requests.map(({ headers }) => headers['idempotency-key'])
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/)
    expect(new Set(keys).size).toBe(1)
    expect(node.requests.map(({ body }) => body)).toEqual(Array(5).fill('{"n":1}'))
    await fruit.create({ n: 1 })
    expect(node.requests.at(-1)?.headers['idempotency-key']).not.toBe(keys[0])
  })

  it('fails with the last error after the configured number of retries', async () => {
    const node = await fakeNode(broken, BUSY)
    const timing = noted(0)
    const ledger = new LedgerClient(node.url, { timing, retries: 8 })
    await expect(ledger.createDatabase('fruit')).rejects.toMatchObject({
      code: 'WRITER_BUSY',
      status: 503,
    })
    expect(node.requests).toHaveLength(9)
    expect(timing.waits).toEqual([50, 100, 200, 400, 800, 1600, 2500, 2500])
  })

  it('a change that fails temporarily is repeated at most 20 times', async () => {
    const node = await fakeNode(broken)
    const ledger = new LedgerClient(node.url, { timing: noted(), retries: 1_000_000 })
    await expect(ledger.databases()).rejects.toMatchObject({ code: 'UNREACHABLE', status: 0 })
    expect(node.requests).toHaveLength(21)
  })
})

it('does not repeat a change after a permanent error', async () => {
  for (const status of [400, 401, 403, 404, 409, 412, 413, 422, 429, 500, 507]) {
    const node = await fakeNode(json(status, { status: false, code: 'NO', message: 'no' }))
    const ledger = new LedgerClient(node.url, { timing: noted() })
    await expect(ledger.createDatabase('fruit')).rejects.toMatchObject({ code: 'NO', status })
    expect(node.requests).toHaveLength(1)
  }
})

it('repeats reads, without an idempotency key', async () => {
  const node = await fakeNode(BUSY, json(200, { status: true, dbs: [] }))
  expect(await new LedgerClient(node.url, { timing: noted() }).databases()).toEqual([])
  expect(node.requests[1]?.headers['idempotency-key']).toBeUndefined()
})

it('retries a request after a timeout, and fails after the last retry', async () => {
  const node = await fakeNode(() => {})
  const timing = noted()
  const ledger = new LedgerClient(node.url, { timing, timeoutMs: 20, retries: 2 })
  await expect(ledger.databases()).rejects.toMatchObject({ code: 'TIMEOUT', status: 0 })
  // Counts the pauses, because a request can time out before the node has received it.
  expect(timing.waits).toHaveLength(2)
})

it('applies the timeout to the whole reply, and to the function that returns the token', async () => {
  const node = await fakeNode((response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).write('{"status":true,')
  })
  const options = { timeoutMs: 20, retries: 0 }
  const timeout = { code: 'TIMEOUT', status: 0, message: 'no reply within 20 milliseconds' }
  await expect(new LedgerClient(node.url, options).databases()).rejects.toMatchObject(timeout)
  const token = (signal: AbortSignal) =>
    new Promise<string>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason))
    })
  const ledger = new LedgerClient(node.url, { ...options, token })
  await expect(ledger.databases()).rejects.toMatchObject(timeout)
  const controller = new AbortController()
  const pending = ledger.databases({ signal: controller.signal })
  controller.abort(new Error('enough'))
  await expect(pending).rejects.toThrow('enough')
})

it('stops waiting for the next retry when the signal aborts', async () => {
  const node = await fakeNode(BUSY)
  const controller = new AbortController()
  const ledger = new LedgerClient(node.url)
  const pending = ledger.databases({ signal: controller.signal })
  setImmediate(() => controller.abort(new Error('enough')))
  await expect(pending).rejects.toThrow('enough')
})

it('reports a reply that does not come from a node', async () => {
  for (const value of ['text', null, [], { status: 1 }, { dbs: [] }]) {
    const node = await fakeNode(json(200, value))
    const failure = { code: 'REPLY_MALFORMED', status: 200 }
    await expect(new LedgerClient(node.url).databases()).rejects.toMatchObject(failure)
  }
  const proxy = await fakeNode((response) => {
    response.writeHead(200, { 'content-type': 'text/plain' }).end('OK')
  })
  const ledger = new LedgerClient(proxy.url)
  const works = [
    ledger.createDatabase('fruit'),
    ledger.deleteDatabase('fruit'),
    ledger.record([]),
    ledger.serverId(),
  ]
  for (const work of await Promise.allSettled(works)) {
    expect(work).toMatchObject({ reason: { code: 'REPLY_MALFORMED', status: 200 } })
  }
})

it('reports a reply in which a list or number is missing', async () => {
  const node = await fakeNode(json(200, { status: true }))
  const ledger = new LedgerClient(node.url)
  const fruit = ledger.database('fruit')
  const works = [
    ledger.databases(),
    collected(fruit.query()),
    collected(fruit.ids()),
    collected(fruit.history('x')),
    collected(fruit.attachments('x').list()),
    fruit.createAll([{}]),
    ledger.record([]),
    collected(ledger.log()),
    ledger.serverId(),
    fruit.count(),
    fruit.aggregate(),
    fruit.erase({ deleted: true }),
  ]
  for (const work of await Promise.allSettled(works)) {
    expect(work).toMatchObject({ reason: { code: 'REPLY_MALFORMED', status: 200 } })
  }
})

it('refuses a reply of more than 256 MiB before it is in memory', async () => {
  const ledger = new LedgerClient('http://127.0.0.1:1', {
    timing: noted(),
    fetch: async () =>
      new Response(
        new ReadableStream({
          start(controller) {
            controller.enqueue(new Uint8Array(1))
            controller.enqueue(new Uint8Array(256 * 1024 * 1024))
          },
        }),
      ),
  })
  await expect(ledger.databases()).rejects.toMatchObject({
    code: 'REPLY_TOO_LARGE',
    message: 'the reply has more than 268435456 bytes',
  })
})

it('does not follow a redirect, and names its target in the error', async () => {
  const away = await fakeNode((response) => {
    response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()
  })
  const ledger = new LedgerClient(away.url, { timing: noted(), token: 'secret' })
  await expect(ledger.createDatabase('fruit')).rejects.toMatchObject({
    ...{ code: 'REPLY_MALFORMED', status: 302 },
    message: `${away.url}/api/fruit redirects to http://127.0.0.1:1/; create the client with the URL of the node itself`,
  })
  expect(away.requests).toHaveLength(1)
})

it('waits as long as `Retry-After` requires, up to 30 seconds', async () => {
  const refusal = (status: number, seconds: string) =>
    json(status, { status: false, code: 'BUSY', message: 'busy' }, { 'retry-after': seconds })
  const node = await fakeNode(refusal(503, '2'), refusal(429, '30'), CREATED)
  const timing = noted()
  await new LedgerClient(node.url, { timing }).database('fruit').create({ n: 1 })
  expect(timing.waits).toEqual([2_000, 30_000])
  // Replies as a proxy in front of the node would.
  const proxy = await fakeNode((response) => {
    response.writeHead(429, { 'retry-after': '1' }).end('<h1>Too many requests</h1>')
  })
  await expect(new LedgerClient(proxy.url, { timing }).databases()).rejects.toMatchObject({
    ...{ code: 'REPLY_MALFORMED', status: 429, retryAfterMs: 1_000 },
  })
  expect(proxy.requests).toHaveLength(5)
  const slow = await fakeNode(refusal(503, '31'))
  await expect(new LedgerClient(slow.url, { timing }).databases()).rejects.toMatchObject({
    ...{ code: 'BUSY', retryAfterMs: 31_000 },
  })
  expect(slow.requests).toHaveLength(1)
})

it('names the reason why a node cannot be reached', async () => {
  const ledger = new LedgerClient('http://127.0.0.1:1', {
    retries: 0,
    fetch: () =>
      Promise.reject(new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED') })),
  })
  await expect(ledger.databases()).rejects.toMatchObject({
    ...{
      code: 'UNREACHABLE',
      message: 'http://127.0.0.1:1 cannot be reached: connect ECONNREFUSED',
    },
  })
})

it('does not limit the transfer time of an upload or a download', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => {
    vi.useRealTimers()
  })
  const file = { name: 'a', content_type: 'text/plain', length: 5, sha256: 'f'.repeat(64) }
  const signals: (AbortSignal | null | undefined)[] = []
  const attachments = new LedgerClient('http://127.0.0.1:1', {
    timeoutMs: 1_000,
    retries: 0,
    fetch: async (_, init) => {
      signals.push(init?.signal)
      if (init?.method === 'GET') return new Response('hello')
      await vi.advanceTimersByTimeAsync(1_000_000)
      return Response.json({ status: true, attachment: file })
    },
  })
    .database('fruit')
    .attachments('x')
  expect(await attachments.put('a', 'hello')).toEqual(file)
  await attachments.get('a')
  await vi.advanceTimersByTimeAsync(1_000_000)
  expect(signals.map((signal) => signal?.aborted)).toEqual([false, false])
})
