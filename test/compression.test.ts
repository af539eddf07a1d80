// Compressed replies: only if the client asks, with headers that caches and preconditions can rely on.
import { get, type IncomingHttpHeaders } from 'node:http'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { beforeAll, expect, it, onTestFinished } from 'vitest'
import { chooseEncoding } from '../src/http/compression.ts'
import { ReplyBudget } from '../src/http/index.ts'
import { openTokens } from '../src/tokens/index.ts'
import { basic } from './support/basic.ts'
import { CREDENTIALS, HandClock, type LedgerNode, startLedgerNode } from './support/ledger-node.ts'

interface Raw {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly bytes: Buffer
}

/** Sends a request without the decoding of `fetch`. */
function raw(path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Raw> {
  return new Promise((resolve, reject) => {
    get(node.url + path, { method, headers, agent: false }, (reply) => {
      const parts: Buffer[] = []
      reply.on('data', (part) => parts.push(part)).on('error', reject)
      reply.on('end', () => {
        const { statusCode: status = 0, headers: own } = reply
        resolve({ status, headers: own, bytes: Buffer.concat(parts) })
      })
    })
      .on('error', reject)
      .end()
  })
}

let node: LedgerNode
beforeAll(async () => {
  node = await startLedgerNode()
  await node.send('POST', '/api/fruit')
  const items = Array.from({ length: 2_000 }, (_, n) => ({ id: `i${n}`, name: '果物', n }))
  await node.send('POST', '/api/fruit', items)
  await node.send('POST', '/api/fruit', { id: 'long', text: 'plum '.repeat(1_000) })
})

const DECODE = {
  gzip: gunzipSync,
  br: brotliDecompressSync,
} as const

it.each(['gzip', 'br'] as const)(
  'compresses lists, items and chains with %s, with the same bytes',
  async (encoding) => {
    const { serverId } = node.service
    for (const path of [
      '/api/fruit?docs=true',
      '/api/fruit/long',
      `/api/ledgers?serverid=${serverId}&proof=1`,
      '/metrics',
      '/doc/json',
      '/api/fruit?docs=true&at=1',
      '/api/fruit/long/history',
    ]) {
      const plain = await raw(path)
      const coded = await raw(path, { 'accept-encoding': encoding })
      expect([path, coded.headers['content-encoding']]).toEqual([path, encoding])
      expect(coded.headers.vary).toContain('accept-encoding')
      expect(plain.headers.vary).toContain('accept-encoding')
      if (path !== '/metrics') expect(DECODE[encoding](coded.bytes).equals(plain.bytes)).toBe(true)
      expect(coded.bytes.length).toBeLessThan(plain.bytes.length / 2)
    }
  },
)

it('sends short replies, attachments and replies with secrets as they are', async () => {
  const asked = { 'accept-encoding': 'gzip, br' }
  await node.send('PUT', '/api/fruit/long/attachments/a', 'x'.repeat(5_000), {
    'content-type': 'text/plain',
  })
  for (const path of [
    '/api/dbs',
    '/api/fruit?limit=2',
    '/api/fruit/long/attachments/a',
    '/api/none',
  ]) {
    const { headers } = await raw(path, asked)
    expect([path, headers['content-encoding']]).toEqual([path, undefined])
  }
  const clock = new HandClock()
  const tokens = await openTokens({ clock, folder: null, secret: null })
  const guarded = await startLedgerNode({ clock, tokens })
  onTestFinished(() => guarded.close())
  const { token } = (
    await guarded.send('POST', '/session', undefined, basic(CREDENTIALS.name, CREDENTIALS.password))
  ).json
  const scopes = Array.from({ length: 60 }, (_, n) => `db:database-${n}:read`)
  const created = await fetch(`${guarded.url}/api/config/tokens`, {
    method: 'POST',
    headers: { ...asked, authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ subject: 'x', scopes, life_seconds: 60 }),
  })
  expect([created.status, created.headers.get('content-encoding')]).toEqual([200, null])
  expect((await created.text()).length).toBeGreaterThan(1_024)
})

it('the entity tag of a compressed reply differs, and is accepted in every condition', async () => {
  const plain = await raw('/api/fruit/long')
  const coded = await raw('/api/fruit/long', { 'accept-encoding': 'gzip' })
  const tag = String(coded.headers.etag)
  expect([plain.headers.etag, tag]).toEqual(['"2.0"', '"2.0-gzip"'])
  const head = await raw('/api/fruit/long', { 'accept-encoding': 'gzip' }, 'HEAD')
  expect(head.headers).toMatchObject({
    etag: tag,
    'content-encoding': 'gzip',
    vary: coded.headers.vary,
  })
  expect([head.headers['content-length'], head.bytes.length]).toEqual([undefined, 0])
  for (const known of [tag, '"2.0"', 'W/"2.0-gzip"']) {
    const same = await raw('/api/fruit/long', { 'accept-encoding': 'gzip', 'if-none-match': known })
    expect([same.status, same.headers.etag]).toEqual([304, known.replace('W/', '')])
  }
  const changed = { text: 'fig '.repeat(1_000) }
  const stale = await node.send('POST', '/api/fruit/long', changed, { 'if-match': '"1.0-gzip"' })
  expect(stale.status).toBe(412)
  const saved = await node.send('POST', '/api/fruit/long', changed, { 'if-match': tag })
  expect([saved.status, saved.headers.get('etag')]).toEqual([200, '"4.0"'])
})

it('compresses at most 32 replies as streams at the same time', () => {
  const budget = new ReplyBudget()
  const closings: (() => void)[] = []
  const response = () => ({ once: (_: string, close: () => void) => closings.push(close) })
  const start = () => budget.startCompression(response() as never)
  expect(Array.from({ length: 33 }, start)).toEqual([...Array(32).fill(true), false])
  closings[0]?.()
  expect([start(), start()]).toEqual([true, false])
})

it.each([
  ['gzip', 'gzip'],
  ['gzip, deflate, br', 'br'],
  ['br;q=0.5, gzip', 'gzip'],
  ['GZIP;q=0.1', 'gzip'],
  ['*', 'br'],
  ['*;q=0', null],
  ['gzip;q=0, br;q=0.0', null],
  ['identity', null],
  ['x-gzip, gzipped', null],
  ['', null],
  [undefined, null],
])('Accept-Encoding %j selects %j', (header, encoding) => {
  expect(chooseEncoding(header, ['br', 'gzip'])).toBe(encoding)
})
