// Attachments over a real socket: what goes in comes out, whole, in parts or not at all.
import { hash } from 'node:crypto'
import { existsSync, readdirSync, readlinkSync } from 'node:fs'
import { request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  type LedgerNode,
  type LedgerNodeOptions,
  startLedgerNode,
  temporaryFolder,
  verifyFolder,
} from './support/ledger-node.ts'
import { exchange } from './support/raw-socket.ts'

const ITEM = '/api/fruit/a'
const TEXT = 'the quick brown fox'

let folder: string
let node: LedgerNode

async function start(options: LedgerNodeOptions = {}): Promise<LedgerNode> {
  const own = temporaryFolder()
  folder = own
  const started = await startLedgerNode({ folder, ...options })
  onTestFinished(async () => {
    await started.close()
    expect((await verifyFolder(own)).finding).toBeNull()
  })
  await started.send('POST', '/api/fruit')
  await started.send('POST', '/api/fruit', { id: 'a' })
  return started
}

beforeEach(async () => {
  node = await start()
})

const shaOf = (bytes: string | Uint8Array) => hash('sha256', bytes, 'hex')
const BYTES = { 'content-type': 'application/octet-stream' }
const put = (name: string, body: string | Uint8Array, headers: Record<string, string> = {}) =>
  node.send('PUT', `${ITEM}/attachments/${encodeURIComponent(name)}`, body, {
    ...BYTES,
    ...headers,
  })
const get = (name: string, headers: Record<string, string> = {}) =>
  node.send('GET', `${ITEM}/attachments/${encodeURIComponent(name)}`, undefined, headers)
const names = async () =>
  (await node.send('GET', `${ITEM}/attachments`)).json.attachments.map(
    ({ name }: { name: string }) => name,
  )
/** The files of contents, and of what is still arriving. */
const filesOf = (path = join(folder, 'attachments')): string[] =>
  existsSync(path)
    ? readdirSync(path, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name).slice(path.length + 1))
        .toSorted()
    : []
const fileOf = (text: string) => `${shaOf(text).slice(0, 2)}/${shaOf(text).slice(2)}`
const entries = async () => {
  const { ledgers } = (
    await node.send('GET', `/api/ledgers?serverid=${node.service.serverId}&offset=2`)
  ).json
  return ledgers.flatMap(({ body }: { body: unknown[] }) => body)
}

describe('what is attached', () => {
  it('comes back byte for byte with its type and name, and is named in the ledger by its SHA-256', async () => {
    const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, at) => (at * 31) & 255))
    const type = 'text/html; charset="utf-8"'
    const reply = await put('Größe 台帳.html', bytes, { 'content-type': type })
    const attachment = {
      content_type: type,
      length: 300_000,
      name: 'Größe 台帳.html',
      sha256: shaOf(bytes),
    }
    expect([reply.status, reply.json]).toEqual([200, { status: true, attachment }])
    const position = `${node.service.serverId}/2.0`
    expect(reply.headers.get('etag')).toBe(`"${attachment.sha256}"`)
    expect(reply.headers.get('ledger-position')).toBe(position)

    const path = `${ITEM}/attachments/${encodeURIComponent(attachment.name)}`
    const got = await fetch(node.url + path)
    expect(Buffer.from(await got.arrayBuffer()).equals(bytes)).toBe(true)
    const expected = {
      'content-type': type,
      'content-length': '300000',
      'content-disposition':
        'attachment; filename="Gr__e __.html"; ' +
        "filename*=UTF-8''Gr%C3%B6%C3%9Fe%20%E5%8F%B0%E5%B8%B3.html",
      etag: `"${attachment.sha256}"`,
      'accept-ranges': 'bytes',
      'cache-control': 'no-cache',
      'ledger-position': position,
      'repr-digest': `sha-256=:${hash('sha256', bytes, 'base64')}:`,
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'; sandbox",
      'cross-origin-resource-policy': 'same-origin',
    }
    expect(Object.fromEntries(got.headers)).toMatchObject(expected)
    const head = await fetch(node.url + path, { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
    expect(Object.fromEntries(head.headers)).toMatchObject(expected)

    expect(await entries()).toEqual([
      {
        serverid: node.service.serverId,
        method: 'create_attachment',
        db: 'fruit',
        id: 'a',
        attachment,
      },
    ])
  })

  it('is listed by name, with limit and offset, and is not part of the item', async () => {
    for (const name of ['c', 'a', 'b', 'é']) await put(name, `content of ${name}`)
    const list = async (query: string) =>
      (await node.send('GET', `${ITEM}/attachments${query}`)).json
    const all = await list('')
    expect(all).toMatchObject({ status: true, limit: 0, offset: 0 })
    expect(all.attachments.map(({ name }: { name: string }) => name)).toEqual(['a', 'b', 'c', 'é'])
    expect(all.attachments[0]).toEqual({
      content_type: 'application/octet-stream',
      length: 12,
      name: 'a',
      sha256: shaOf('content of a'),
    })
    const part = await list('?limit=2&offset=1')
    expect(part.attachments.map(({ name }: { name: string }) => name)).toEqual(['b', 'c'])
    expect(part).toMatchObject({ limit: 2, offset: 1 })
    expect((await node.send('GET', ITEM)).text).toBe('{"status":true,"item":{"id":"a"}}')
  })

  it('is replaced by what is put under its name; the old bytes stay while the ledger names them', async () => {
    await put('n', 'old', { 'content-type': 'text/a' })
    await put('n', 'new', { 'content-type': 'text/b' })
    const { text, headers } = await get('n')
    expect([text, headers.get('content-type')]).toEqual(['new', 'text/b'])
    expect(filesOf()).toEqual([fileOf('old'), fileOf('new')].toSorted())
    expect((await entries()).map(({ method }: { method: string }) => method)).toEqual([
      'create_attachment',
      'create_attachment',
    ])
  })

  it('is gone when it is deleted, and so when its item or its database is', async () => {
    await put('n', TEXT)
    const gone = await node.send('DELETE', `${ITEM}/attachments/n`)
    expect([gone.status, gone.text]).toEqual([200, '{"status":true}'])
    expect(gone.headers.get('ledger-position')).toBe(`${node.service.serverId}/3.0`)
    expect((await entries()).at(-1)).toEqual({
      serverid: node.service.serverId,
      method: 'delete_attachment',
      db: 'fruit',
      id: 'a',
      attachment: {
        content_type: 'application/octet-stream',
        length: TEXT.length,
        name: 'n',
        sha256: shaOf(TEXT),
      },
    })
    const missing = await get('n')
    expect([missing.status, missing.json.code]).toEqual([404, 'ATTACHMENT_NOT_FOUND'])
    expect((await node.send('DELETE', `${ITEM}/attachments/n`)).status).toBe(404)

    await put('n', TEXT)
    await node.send('DELETE', ITEM)
    expect((await get('n')).json.code).toBe('ITEM_NOT_FOUND')
    await node.send('POST', '/api/fruit', { id: 'a' })
    expect([await names(), (await get('n')).json.code]).toEqual([[], 'ATTACHMENT_NOT_FOUND'])
    await put('n', TEXT)
    await node.send('DELETE', '/api/fruit')
    expect((await get('n')).json.code).toBe('DATABASE_NOT_FOUND')
    await node.send('POST', '/api/fruit')
    await node.send('POST', '/api/fruit', { id: 'a' })
    expect(await names()).toEqual([])
  })

  it('may be empty', async () => {
    expect((await put('nothing', '')).json.attachment).toMatchObject({ length: 0 })
    const { status, text, headers } = await get('nothing')
    expect([status, text, headers.get('content-length')]).toEqual([200, '', '0'])
    expect((await get('nothing', { range: 'bytes=0-' })).status).toBe(416)
  })

  it('is kept in memory mode too, and by a node that was closed and started again', async () => {
    const passing = await startLedgerNode()
    onTestFinished(() => passing.close())
    await passing.send('POST', '/api/fruit')
    await passing.send('POST', '/api/fruit', { id: 'a' })
    await passing.send('PUT', `${ITEM}/attachments/n`, TEXT, BYTES)
    expect((await passing.send('GET', `${ITEM}/attachments/n`)).text).toBe(TEXT)

    await put('n', TEXT)
    await node.close()
    expect(filesOf()).toEqual([fileOf(TEXT)])
    node = await startLedgerNode({ folder })
    expect((await get('n')).text).toBe(TEXT)
    await node.close()
  })
})

describe('parts and conditions', () => {
  beforeEach(async () => {
    await put('n', '0123456789', { 'content-type': 'text/plain' })
  })
  const etag = `"${shaOf('0123456789')}"`

  it.each([
    ['bytes=0-3', '0123', 'bytes 0-3/10'],
    ['bytes=8-', '89', 'bytes 8-9/10'],
    ['bytes=-4', '6789', 'bytes 6-9/10'],
    ['bytes=-99', '0123456789', 'bytes 0-9/10'],
    ['bytes=5-99', '56789', 'bytes 5-9/10'],
    ['bytes=9-9', '9', 'bytes 9-9/10'],
    ['BYTES= 1-2 , ,20-', '12', 'bytes 1-2/10'],
  ])('Range: %s gives that part', async (range, text, contentRange) => {
    const reply = await get('n', { range })
    expect([reply.status, reply.text]).toEqual([206, text])
    expect(reply.headers.get('content-range')).toBe(contentRange)
    expect(reply.headers.get('content-length')).toBe(String(text.length))
    expect(reply.headers.get('etag')).toBe(etag)
  })

  it('several ranges come as multipart/byteranges of the length that is said', async () => {
    const reply = await get('n', { range: 'bytes=7-,0-1,-1' })
    const [, boundary] =
      /^multipart\/byteranges; boundary=(.*)$/.exec(reply.headers.get('content-type') ?? '') ?? []
    const part = (range: string, text: string) =>
      `\r\n--${boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes ${range}/10\r\n\r\n${text}`
    expect([reply.status, reply.text]).toEqual([
      206,
      `${part('7-9', '789')}${part('0-1', '01')}${part('9-9', '9')}\r\n--${boundary}--\r\n`,
    ])
    expect(reply.headers.get('content-length')).toBe(String(reply.text.length))
  })

  it.each([
    ['another unit', 'lines=0-3'],
    ['no range', 'bytes='],
    ['not a number', 'bytes=a-3'],
    ['the end before the start', 'bytes=5-3'],
    ['a wrong one among right ones', 'bytes=0-1,x'],
    ['overlaps that are more than the whole', 'bytes=0-,0-'],
    ['more than 16 parts', `bytes=${Array.from({ length: 17 }, () => '1-1').join(',')}`],
  ])('a Range with %s gives the whole', async (_, range) => {
    const reply = await get('n', { range })
    expect([reply.status, reply.text]).toEqual([200, '0123456789'])
  })

  it('a Range beyond the end is 416, and says how long the content is', async () => {
    for (const range of ['bytes=10-', 'bytes=-0', 'bytes=99999999999999999999-', 'bytes=10-,20-']) {
      const reply = await get('n', { range })
      expect([range, reply.status, reply.json.code]).toEqual([range, 416, 'RANGE_UNSATISFIABLE'])
      expect(reply.headers.get('content-range')).toBe('bytes */10')
    }
  })

  it('If-Range gives the part while the content is the same, else the whole', async () => {
    const range = 'bytes=4-'
    expect((await get('n', { range, 'if-range': etag })).text).toBe('456789')
    for (const other of [`W/${etag}`, '"x"', 'Wed, 21 Oct 2026 07:28:00 GMT']) {
      expect((await get('n', { range, 'if-range': other })).status).toBe(200)
    }
  })

  it('If-None-Match is 304 without a body, If-Match 412, for GET and HEAD', async () => {
    const path = `${ITEM}/attachments/n`
    for (const method of ['GET', 'HEAD']) {
      const ask = (headers: Record<string, string>) => node.send(method, path, undefined, headers)
      for (const tag of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
        const reply = await ask({ 'if-none-match': tag })
        expect([tag, reply.status, reply.text]).toEqual([tag, 304, ''])
        expect(reply.headers.get('etag')).toBe(etag)
      }
      expect((await ask({ 'if-none-match': '"x"' })).status).toBe(200)
      expect((await ask({ 'if-match': '"x"' })).status).toBe(412)
      expect((await ask({ 'if-match': `"y", ${etag}` })).status).toBe(200)
    }
    expect((await node.send('HEAD', path, undefined, { range: 'bytes=0-1' })).status).toBe(200)
  })

  it('If-Match and If-None-Match decide whether PUT and DELETE are done, else 412 and nothing', async () => {
    const other = { 'if-match': '"x"' }
    const absent = { 'if-none-match': '*' }
    const codes = []
    for (const headers of [other, absent, { 'if-none-match': etag }]) {
      codes.push((await put('n', 'new', headers)).json.code)
    }
    codes.push((await put('m', 'new', { 'if-match': '*' })).json.code)
    codes.push((await node.send('DELETE', `${ITEM}/attachments/n`, undefined, other)).json.code)
    expect(codes).toEqual(codes.map(() => 'PRECONDITION_FAILED'))
    expect(filesOf()).toHaveLength(1)
    expect((await put('m', 'new', absent)).status).toBe(200)
    expect((await put('n', 'next', { 'if-match': etag })).status).toBe(200)
    // Of many that saw the same, one is done.
    const seen = { 'if-match': `"${shaOf('next')}"` }
    const all = await Promise.all(['a', 'b', 'c', 'd'].map((text) => put('n', text, seen)))
    expect(all.map(({ status }) => status).toSorted()).toEqual([200, 412, 412, 412])
    const last = { 'if-match': (await get('n')).headers.get('etag') ?? '' }
    expect((await node.send('DELETE', `${ITEM}/attachments/n`, undefined, last)).status).toBe(200)
  })

  it('what is not there is told before a precondition is: deleting it, or attaching to no item', async () => {
    const seen = { 'if-match': etag }
    const missing = await node.send('DELETE', `${ITEM}/attachments/x`, undefined, seen)
    expect([missing.status, missing.json.code]).toEqual([404, 'ATTACHMENT_NOT_FOUND'])
    const nowhere = await node.send('PUT', '/api/fruit/x/attachments/n', 'new', seen)
    expect([nowhere.status, nowhere.json.code]).toEqual([404, 'ITEM_NOT_FOUND'])
  })

  it('requests one behind the other on one connection are answered in order', async () => {
    const line = (method: string, range: string) =>
      `${method} ${ITEM}/attachments/n HTTP/1.1\r\nHost: localhost\r\nRange: ${range}\r\n\r\n`
    const pieces = [line('GET', 'bytes=0-1') + line('GET', 'bytes=99-') + line('GET', 'bytes=8-')]
    const { replies } = await exchange(node.url, pieces, { replies: 3 })
    expect(replies.map(({ status }) => status)).toEqual([206, 416, 206])
    expect([replies[0]?.body, replies[2]?.body]).toEqual(['01', '89'])
  })
})

describe('an upload with an Idempotency-Key', () => {
  const KEY = { 'idempotency-key': 'k' }
  const said = ({ status, text, headers }: Awaited<ReturnType<typeof put>>) => [
    status,
    text,
    headers.get('etag'),
    headers.get('ledger-position'),
  ]

  it('is one entry however often and however many times at once it is sent, with one answer', async () => {
    const send = () => put('n', TEXT, KEY)
    const together = await Promise.all(Array.from({ length: 8 }, send))
    const answers = new Set([...together, await send()].map((reply) => JSON.stringify(said(reply))))
    expect(answers.size).toBe(1)
    expect(together[0]?.status).toBe(200)
    expect(await entries()).toHaveLength(1)
    expect(filesOf()).toEqual([fileOf(TEXT)])
  })

  it('is another request with other bytes, another type, name or item: 422, and nothing is left of it', async () => {
    await node.send('POST', '/api/fruit', { id: 'b' })
    await put('n', TEXT, KEY)
    const others = [
      put('n', 'other bytes', KEY),
      put('n', TEXT, { ...KEY, 'content-type': 'text/plain' }),
      put('m', TEXT, KEY),
      node.send('PUT', '/api/fruit/b/attachments/n', TEXT, { ...BYTES, ...KEY }),
      node.send('DELETE', `${ITEM}/attachments/n`, undefined, KEY),
    ]
    for (const reply of await Promise.all(others)) {
      expect([reply.status, reply.json.code]).toEqual([422, 'IDEMPOTENCY_KEY_REUSED'])
    }
    expect(await entries()).toHaveLength(2)
    expect(filesOf()).toEqual([fileOf(TEXT)])
  })

  it('is answered as the first time when its precondition or its item has gone since', async () => {
    const send = () => put('n', TEXT, { ...KEY, 'if-none-match': '*' })
    const first = said(await send())
    expect(first[0]).toBe(200)
    expect(said(await send())).toEqual(first)
    await put('n', 'newer')
    expect(said(await send())).toEqual(first)
    expect((await get('n')).text).toBe('newer')
    await node.send('DELETE', ITEM)
    expect(said(await send())).toEqual(first)
    await node.send('DELETE', '/api/fruit')
    expect(said(await send())).toEqual(first)
    const bare = await put('n', TEXT, { 'if-none-match': '*' })
    expect(bare.json.code).toBe('DATABASE_NOT_FOUND')
  })

  it('is refused before its body when the key cannot be read, and a refusal is not kept', async () => {
    const odd = await put('n', TEXT, { 'idempotency-key': 'a b' })
    expect([odd.status, odd.json.code]).toEqual([400, 'IDEMPOTENCY_KEY_INVALID'])
    const send = () => put('n', TEXT, { ...KEY, 'if-match': `"${shaOf('old')}"` })
    expect((await send()).status).toBe(412)
    await put('n', 'old')
    const done = said(await send())
    expect(done[0]).toBe(200)
    expect(said(await send())).toEqual(done)
  })
})

describe('a browser', () => {
  it('cannot run or frame what was uploaded', async () => {
    await put('x.js', 'alert(1)', { 'content-type': 'text/javascript' })
    for (const use of ['script', 'style', 'worker', 'serviceworker', 'object', 'embed']) {
      const reply = await get('x.js', { 'sec-fetch-dest': use, 'sec-fetch-site': 'same-origin' })
      expect([use, reply.status, reply.json.code]).toEqual([use, 403, 'ATTACHMENT_NOT_CODE'])
    }
    expect((await get('x.js', { 'sec-fetch-dest': 'document' })).status).toBe(200)
    expect((await get('x.js', { 'sec-fetch-site': 'cross-site' })).status).toBe(403)
  })
})

/** Sends the head of an upload and some of its body, and leaves the connection open. */
async function beginUpload(head: string, body: Uint8Array | string) {
  const { hostname, port } = new URL(node.url)
  const socket = connect(Number(port), hostname)
  onTestFinished(() => void socket.destroy())
  let text = ''
  socket.on('data', (bytes) => {
    text += bytes
  })
  socket.on('error', () => {})
  socket.write(`PUT ${ITEM}/attachments/n HTTP/1.1\r\nHost: localhost\r\n${head}\r\n\r\n`)
  socket.write(body)
  return { socket, received: () => text }
}

describe('an upload', () => {
  it('that is broken off leaves nothing', async () => {
    const { socket } = await beginUpload('Content-Length: 1000000', Buffer.alloc(600_000))
    await vi.waitUntil(() => filesOf().length === 1)
    expect(filesOf()[0]).toMatch(/^incoming\//)
    socket.destroy()
    await vi.waitUntil(() => filesOf().length === 0)
    const chunked = await beginUpload('Transfer-Encoding: chunked', '5\r\nhello\r\n')
    await vi.waitUntil(() => filesOf().length === 1)
    chunked.socket.end()
    await vi.waitUntil(() => filesOf().length === 0)
    expect([await names(), (await entries()).length]).toEqual([[], 0])
  })

  it('that stalls is ended with 408; one that goes on may take longer than other requests', async () => {
    await node.close()
    node = await start({ limits: { requestTimeoutMs: 300 } })
    const stalled = await beginUpload('Content-Length: 100', 'only this')
    await vi.waitUntil(() => stalled.received().includes('\r\n\r\n'), { timeout: 5_000 })
    expect(stalled.received()).toMatch(/^HTTP\/1\.1 408 /)
    expect(stalled.received()).toContain('REQUEST_TIMEOUT')
    await vi.waitUntil(() => filesOf().length === 0)

    const piece = Buffer.alloc(40_000)
    const living = await beginUpload(`Content-Length: ${piece.length * 12}`, '')
    for (let sent = 0; sent < 12; sent += 1) {
      living.socket.write(piece)
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    await vi.waitUntil(() => living.received().includes('\r\n\r\n'))
    expect(living.received()).toMatch(/^HTTP\/1\.1 200 /)
    // Afterwards the usual limit holds on the same connection.
    living.socket.write('POST /api/fruit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n')
    await vi.waitUntil(() => living.received().includes('408'), { timeout: 5_000 })
  })

  it('longer than the limit is refused before it arrives, or when it passes it, with 413', async () => {
    await node.close()
    node = await start({ attachmentBytesMax: 100_000 })
    expect((await put('n', Buffer.alloc(100_000))).status).toBe(200)
    const announced = await beginUpload('Content-Length: 100001', '')
    await vi.waitUntil(() => announced.received().includes('ATTACHMENT_TOO_LARGE'))
    expect(announced.received()).toMatch(/^HTTP\/1\.1 413 [\s\S]*connection: close/i)

    const chunk = `186a1\r\n${'x'.repeat(100_001)}\r\n`
    const streamed = await beginUpload('Transfer-Encoding: chunked', chunk)
    await vi.waitUntil(() => streamed.received().includes('ATTACHMENT_TOO_LARGE'))
    // It may go on sending: that is read and thrown away, and the connection ends.
    streamed.socket.write('5\r\nhello\r\n0\r\n\r\n')
    await vi.waitUntil(() => streamed.socket.readableEnded)
    expect(filesOf()).toEqual([
      `${shaOf(Buffer.alloc(100_000)).slice(0, 2)}/${shaOf(Buffer.alloc(100_000)).slice(2)}`,
    ])
  })

  it('beside 64 others that are arriving is told to come again', async () => {
    const head = 'Content-Length: 100'
    const arriving = []
    for (let at = 0; at < 64; at += 1) arriving.push(await beginUpload(head, 'some'))
    await vi.waitUntil(() => filesOf().length === 64, { timeout: 5_000 })
    const reply = await put('n', TEXT)
    expect([reply.status, reply.json.code]).toEqual([503, 'UPLOADS_BUSY'])
    for (const { socket } of arriving) socket.destroy()
    await vi.waitUntil(() => filesOf().length === 0, { timeout: 5_000 })
    expect((await put('n', TEXT)).status).toBe(200)
  })

  it('is compared with the digest that comes with it', async () => {
    const right = `sha-256=:${hash('sha256', TEXT, 'base64')}:`
    const wrong = `sha-256=:${hash('sha256', 'x', 'base64')}:`
    for (const header of ['content-digest', 'repr-digest']) {
      const code = async (value: string) => {
        const { status, json } = await put('n', TEXT, { [header]: value })
        return [status, json.code]
      }
      expect(await code(right)).toEqual([200, undefined])
      expect(await code(`sha-512=:AAAA:, ${right}`)).toEqual([200, undefined])
      expect(await code('sha-512=:AAAA:')).toEqual([200, undefined])
      expect(await code(wrong)).toEqual([400, 'DIGEST_MISMATCH'])
      for (const malformed of ['sha-256=abc', 'sha-256=:abc:', 'x', 'sha-256', '']) {
        expect([malformed, ...(await code(malformed))]).toEqual([malformed, 400, 'DIGEST_INVALID'])
      }
    }
    expect(filesOf()).toEqual([fileOf(TEXT)])
  })

  it.each([
    ['a Content-Encoding', { 'content-encoding': 'gzip' }, 415, 'CONTENT_ENCODING_UNKNOWN'],
    ['a Content-Range', { 'content-range': 'bytes 0-3/9' }, 400, 'CONTENT_RANGE_REFUSED'],
    ['a type that is none', { 'content-type': 'text' }, 415, 'CONTENT_TYPE_UNKNOWN'],
    ['any type', { 'content-type': '*/*' }, 415, 'ATTACHMENT_TYPE_INVALID'],
    [
      'a type that is too long',
      { 'content-type': `text/plain; a=${'b'.repeat(256)}` },
      415,
      'ATTACHMENT_TYPE_INVALID',
    ],
  ])('with %s is refused', async (_, headers, status, code) => {
    const reply = await put('n', TEXT, headers as Record<string, string>)
    expect([reply.status, reply.json.code]).toEqual([status, code])
    expect(await names()).toEqual([])
  })

  it.each([
    ['no such database', '/api/nuts/a/attachments/n', 404, 'DATABASE_NOT_FOUND'],
    ['no such item', '/api/fruit/b/attachments/n', 404, 'ITEM_NOT_FOUND'],
    ['a reserved database', '/api/config/a/attachments/n', 400, 'DATABASE_NAME_RESERVED'],
    ['a slash in the name', `${ITEM}/attachments/a%2Fb`, 400, 'ATTACHMENT_NAME_INVALID'],
    ['a newline in the name', `${ITEM}/attachments/a%0Ab`, 400, 'ATTACHMENT_NAME_INVALID'],
    ['a name too long', `${ITEM}/attachments/${'x'.repeat(257)}`, 400, 'ATTACHMENT_NAME_INVALID'],
  ])('to %s is refused', async (_, path, status, code) => {
    const reply = await node.send('PUT', path, TEXT, BYTES)
    expect([reply.status, reply.json.code]).toEqual([status, code])
    expect(filesOf()).toEqual([])
  })

  it('whose item is deleted while it arrives leaves nothing, and another of the same bytes stays', async () => {
    await node.send('POST', '/api/fruit', { id: 'b' })
    const { socket, received } = await beginUpload(`Content-Length: ${TEXT.length}`, 'the quick')
    await vi.waitUntil(() => filesOf().length === 1)
    await node.send('DELETE', ITEM)
    await node.send('PUT', '/api/fruit/b/attachments/n', TEXT, BYTES)
    socket.write(' brown fox')
    await vi.waitUntil(() => received().includes('ITEM_NOT_FOUND'))
    await vi.waitUntil(() => filesOf().length === 1)
    expect((await node.send('GET', '/api/fruit/b/attachments/n')).text).toBe(TEXT)
  })

  it('of the same content, many at once, keeps it once and gives it to all', async () => {
    const all = Array.from({ length: 20 }, (_, at) => `n${at}`)
    const replies = await Promise.all(all.map((name) => put(name, TEXT)))
    expect(replies.map(({ status }) => status)).toEqual(all.map(() => 200))
    expect(filesOf()).toEqual([fileOf(TEXT)])
    expect(await names()).toEqual(all.toSorted())
  })
})

it('64 MiB go in and out with bounded memory, and are resumed by Range', async () => {
  const mib = 64
  const block = Buffer.alloc(1024 * 1024, 'daicho ')
  const expected = shaOf(Buffer.concat(Array.from({ length: mib }, () => block)))
  const path = `${ITEM}/attachments/film`
  await put('film', 'short, so that all code is loaded')
  const before = process.memoryUsage.rss()
  let most = before
  const watch = setInterval(() => {
    most = Math.max(most, process.memoryUsage.rss())
  }, 5)
  const status = await new Promise((resolve, reject) => {
    const upload = request(`${node.url}${path}`, { method: 'PUT' }, (reply) => {
      reply.resume()
      resolve(reply.statusCode)
    })
    upload.on('error', reject)
    const send = (left: number): void => {
      if (left === 0) upload.end()
      else upload.write(block, () => send(left - 1))
    }
    send(mib)
  })
  expect(status).toBe(200)
  const stored = (await node.send('HEAD', path)).headers.get('etag')
  expect(stored).toBe(`"${expected}"`)
  clearInterval(watch)
  // The client is in this process too, and takes its part.
  expect((most - before) / 1024 / 1024).toBeLessThan(60)

  const resumed = await node.send('GET', path, undefined, {
    range: `bytes=${63 * 1024 * 1024}-`,
    'if-range': String(stored),
  })
  expect([resumed.status, resumed.text.length]).toEqual([206, 1024 * 1024])
  expect(resumed.text).toBe(block.toString())
})

/** How many open files of this process are contents of this test. */
const openContents = () =>
  readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(join(folder, 'attachments'))
    } catch {
      return false
    }
  }).length

describe.skipIf(!existsSync('/proc/self/fd'))('a download (seen in /proc)', () => {
  const large = Buffer.alloc(48 * 1024 * 1024, 'x')
  /** Asks for the content and takes nothing of it. */
  async function ask() {
    const { hostname, port } = new URL(node.url)
    const socket = connect(Number(port), hostname)
    onTestFinished(() => void socket.destroy())
    socket.on('error', () => {})
    socket.pause()
    socket.write(`GET ${ITEM}/attachments/n HTTP/1.1\r\nHost: localhost\r\n\r\n`)
    await vi.waitUntil(() => openContents() === 1)
    return socket
  }

  it('lets go of its file when it is through, when the client goes, and when it takes nothing', async () => {
    await node.close()
    node = await start({ limits: { requestTimeoutMs: 300 } })
    await put('n', large)
    expect((await get('n')).text.length).toBe(large.length)
    await vi.waitUntil(() => openContents() === 0)
    const gone = await ask()
    gone.destroy()
    await vi.waitUntil(() => openContents() === 0)
    await ask()
    await vi.waitUntil(() => openContents() === 0, { timeout: 5_000 })
  })
})
