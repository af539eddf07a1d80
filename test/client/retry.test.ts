import { describe, expect, it } from 'vitest'
import { LedgerClient } from '../../src/client/index.ts'
import { broken, fakeNode, json, noted } from './fake-node.ts'

const BUSY = json(503, { status: false, code: 'WRITER_BUSY', message: 'busy' })
const GATEWAY = (response: Parameters<typeof broken>[0]) => {
  response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad gateway</h1>')
}
const CREATED = json(200, { status: true, id: 'x' }, { 'ledger-position': '1/4.0', etag: '"4.0"' })

describe('a change that fails temporarily', () => {
  it('is repeated with the same idempotency key until it is answered', async () => {
    const node = await fakeNode(BUSY, broken, GATEWAY, CREATED)
    const timing = noted()
    const fruit = new LedgerClient(node.url, { timing }).database('fruit')
    expect(await fruit.create({ n: 1 })).toEqual({ id: 'x', position: '4.0', etag: '"4.0"' })
    expect(timing.waits).toEqual([100, 200, 400])
    const keys = node.requests.map(({ headers }) => headers['idempotency-key'])
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/)
    expect(new Set(keys).size).toBe(1)
    expect(node.requests.map(({ body }) => body)).toEqual(Array(4).fill('{"n":1}'))
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

  it('bounds the number of retries', async () => {
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

it('also repeats reads, without a key', async () => {
  const node = await fakeNode(BUSY, json(200, { status: true, dbs: [] }))
  expect(await new LedgerClient(node.url, { timing: noted() }).databases()).toEqual([])
  expect(node.requests[1]?.headers['idempotency-key']).toBeUndefined()
})

it('retries after a timeout, then fails', async () => {
  const node = await fakeNode(() => {})
  const ledger = new LedgerClient(node.url, { timing: noted(), timeoutMs: 20, retries: 2 })
  await expect(ledger.databases()).rejects.toMatchObject({ code: 'TIMEOUT', status: 0 })
  expect(node.requests).toHaveLength(3)
})

it('stops waiting when the signal aborts', async () => {
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
  const away = await fakeNode((response) => {
    response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()
  })
  const ledger = new LedgerClient(away.url, { timing: noted(), retries: 0, token: 'secret' })
  await expect(ledger.databases()).rejects.toMatchObject({ code: 'UNREACHABLE' })
})
