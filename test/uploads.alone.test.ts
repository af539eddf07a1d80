// Uploads and downloads over a real socket. Uploads may be interrupted, stalled, too long, repeated or concurrent.
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readdirSync, readlinkSync } from 'node:fs'
import { request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { AttachedNode, BYTES, fileOf, ITEM, shaOf } from './support/attached.ts'
import type { Reply } from './support/ledger-node.ts'
import { until } from './support/until.ts'

const TEXT = 'the quick brown fox'
/**
 * Idle timeout of a connection, milliseconds. Longer than one pause of the client, and shorter than the
 * twelve pauses of an upload.
 */
const IDLE_MS = 2_000
const PAUSE_MS = 200

let at: AttachedNode
beforeEach(async () => {
  at = await AttachedNode.start()
})

describe('an upload with an Idempotency-Key', () => {
  const KEY = { 'idempotency-key': 'k' }
  const summaryOf = ({ status, text, headers }: Reply) => [
    status,
    text,
    headers.get('etag'),
    headers.get('ledger-position'),
  ]

  it('creates one entry and always gets the same reply, even if it is repeated or sent concurrently', async () => {
    const send = () => at.put('n', TEXT, KEY)
    const together = await Promise.all(Array.from({ length: 8 }, send))
    const answers = new Set(
      [...together, await send()].map((reply) => JSON.stringify(summaryOf(reply))),
    )
    expect(answers.size).toBe(1)
    expect(together[0]?.status).toBe(200)
    expect(await at.entries()).toHaveLength(1)
    expect(at.files()).toEqual([fileOf(TEXT)])
  })

  it('gets 422 if its bytes, type, name or item differ from those of the first upload, and leaves no file', async () => {
    await at.node.send('POST', '/api/fruit', { id: 'b' })
    await at.put('n', TEXT, KEY)
    const others = [
      at.put('n', 'other bytes', KEY),
      at.put('n', TEXT, { ...KEY, 'content-type': 'text/plain' }),
      at.put('m', TEXT, KEY),
      at.node.send('PUT', '/api/fruit/b/attachments/n', TEXT, { ...BYTES, ...KEY }),
      at.node.send('DELETE', `${ITEM}/attachments/n`, undefined, KEY),
    ]
    for (const reply of await Promise.all(others)) {
      expect([reply.status, reply.json.code]).toEqual([422, 'IDEMPOTENCY_KEY_REUSED'])
    }
    expect(await at.entries()).toHaveLength(2)
    expect(at.files()).toEqual([fileOf(TEXT)])
  })

  it('gets the original reply when it is repeated, even if its precondition would now fail or its item was deleted', async () => {
    const send = () => at.put('n', TEXT, { ...KEY, 'if-none-match': '*' })
    const first = summaryOf(await send())
    expect(first[0]).toBe(200)
    expect(summaryOf(await send())).toEqual(first)
    await at.put('n', 'newer')
    expect(summaryOf(await send())).toEqual(first)
    expect((await at.get('n')).text).toBe('newer')
    await at.node.send('DELETE', ITEM)
    expect(summaryOf(await send())).toEqual(first)
    await at.node.send('DELETE', '/api/fruit')
    expect(summaryOf(await send())).toEqual(first)
    const bare = await at.put('n', TEXT, { 'if-none-match': '*' })
    expect(bare.json.code).toBe('DATABASE_NOT_FOUND')
  })

  it('an upload with an Idempotency-Key is rejected if the key is invalid, and is executed again with the same key after a failed precondition', async () => {
    const odd = await at.put('n', TEXT, { 'idempotency-key': 'a b' })
    expect([odd.status, odd.json.code]).toEqual([400, 'IDEMPOTENCY_KEY_INVALID'])
    const send = () => at.put('n', TEXT, { ...KEY, 'if-match': `"${shaOf('old')}"` })
    expect((await send()).status).toBe(412)
    await at.put('n', 'old')
    const done = summaryOf(await send())
    expect(done[0]).toBe(200)
    expect(summaryOf(await send())).toEqual(done)
  })
})

/** Sends the head of an upload and a part of its body, and leaves the connection open. */
async function beginUpload(head: string, body: Uint8Array | string) {
  const { hostname, port } = new URL(at.node.url)
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
  it('an upload that is interrupted leaves no file', async () => {
    const { socket } = await beginUpload('Content-Length: 1000000', Buffer.alloc(600_000))
    await until('the folder has one file', () => at.files().length === 1)
    expect(at.files()[0]).toMatch(/^incoming\//)
    socket.destroy()
    await until('the folder has no file', () => at.files().length === 0)
    const chunked = await beginUpload('Transfer-Encoding: chunked', '5\r\nhello\r\n')
    await until('the folder has one file', () => at.files().length === 1)
    chunked.socket.end()
    await until('the folder has no file', () => at.files().length === 0)
    expect([await at.names(), (await at.entries()).length]).toEqual([[], 0])
  })

  it('an upload that stalls gets 408, and an active upload may take longer than other requests', async () => {
    await at.node.close()
    at = await AttachedNode.start({ limits: { requestTimeoutMs: IDLE_MS } })
    const stalled = await beginUpload('Content-Length: 100', 'only this')
    await until('the head of the reply has arrived', () => stalled.received().includes('\r\n\r\n'))
    expect(stalled.received()).toMatch(/^HTTP\/1\.1 408 /)
    expect(stalled.received()).toContain('REQUEST_TIMEOUT')
    await until('the folder has no file', () => at.files().length === 0)

    const piece = Buffer.alloc(40_000)
    const living = await beginUpload(`Content-Length: ${piece.length * 12}`, '')
    for (let sent = 0; sent < 12; sent += 1) {
      living.socket.write(piece)
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    }
    await until('the head of the reply has arrived', () => living.received().includes('\r\n\r\n'))
    expect(living.received()).toMatch(/^HTTP\/1\.1 200 /)
    // After the upload, the connection has the usual request timeout again.
    living.socket.write('POST /api/fruit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n')
    await until('a reply with 408 has arrived', () => living.received().includes('408'))
  })

  it('an upload above the size limit gets 413, before its body is read if the length is declared, and otherwise when the body exceeds the limit', async () => {
    await at.node.close()
    at = await AttachedNode.start({ attachmentBytesMax: 100_000 })
    expect((await at.put('n', Buffer.alloc(100_000))).status).toBe(200)
    const announced = await beginUpload('Content-Length: 100001', '')
    await until('ATTACHMENT_TOO_LARGE has arrived', () =>
      announced.received().includes('ATTACHMENT_TOO_LARGE'),
    )
    expect(announced.received()).toMatch(/^HTTP\/1\.1 413 [\s\S]*connection: close/i)

    const chunk = `186a1\r\n${'x'.repeat(100_001)}\r\n`
    const streamed = await beginUpload('Transfer-Encoding: chunked', chunk)
    await until('ATTACHMENT_TOO_LARGE has arrived', () =>
      streamed.received().includes('ATTACHMENT_TOO_LARGE'),
    )
    // The node discards further data, and closes the connection after the end of the body.
    streamed.socket.write('5\r\nhello\r\n0\r\n\r\n')
    await until('the connection is closed', () => streamed.socket.readableEnded)
    expect(at.files()).toEqual([
      `${shaOf(Buffer.alloc(100_000)).slice(0, 2)}/${shaOf(Buffer.alloc(100_000)).slice(2)}`,
    ])
  })

  it('an upload beyond 64 concurrent uploads of one client gets 503, and one of another client replaces the oldest', async () => {
    const head = 'Content-Length: 100'
    const arriving = []
    for (let at = 0; at < 64; at += 1) arriving.push(await beginUpload(head, 'some'))
    await until('the folder has 64 files', () => at.files().length === 64)
    const reply = await at.put('n', TEXT)
    expect([reply.status, reply.json.code]).toEqual([503, 'UPLOADS_BUSY'])
    // An upload of another client replaces the oldest one, which gets 408.
    const { port } = new URL(at.node.url)
    const other = connect({ port: Number(port), host: '127.0.0.1', localAddress: '127.0.0.2' })
    other.write(
      `PUT ${ITEM}/attachments/other HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nsome`,
    )
    expect(String((await once(other, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
    other.destroy()
    const [oldest] = arriving
    await until(
      'the oldest upload has ended',
      () => oldest?.received().includes('REQUEST_TIMEOUT') === true,
    )
    expect(oldest?.received()).toMatch(/^HTTP\/1\.1 408 /)
    for (const { socket } of arriving) socket.destroy()
    await until('the folder has only the stored file', () => at.files().length === 1)
    expect((await at.put('n', TEXT)).status).toBe(200)
  })

  it('an upload is rejected if it does not match its Content-Digest or Repr-Digest header', async () => {
    const right = `sha-256=:${hash('sha256', TEXT, 'base64')}:`
    const wrong = `sha-256=:${hash('sha256', 'x', 'base64')}:`
    for (const header of ['content-digest', 'repr-digest']) {
      const code = async (value: string) => {
        const { status, json } = await at.put('n', TEXT, { [header]: value })
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
    expect(at.files()).toEqual([fileOf(TEXT)])
  })

  it.each([
    ['a Content-Encoding', { 'content-encoding': 'gzip' }, 415, 'CONTENT_ENCODING_UNKNOWN'],
    ['a Content-Range', { 'content-range': 'bytes 0-3/9' }, 400, 'CONTENT_RANGE_REFUSED'],
    ['an invalid Content-Type', { 'content-type': 'text' }, 415, 'CONTENT_TYPE_UNKNOWN'],
    ['the type */*', { 'content-type': '*/*' }, 415, 'ATTACHMENT_TYPE_INVALID'],
    [
      'an invalid parameter after many empty ones',
      { 'content-type': `text/plain${'; '.repeat(40)}@` },
      415,
      'ATTACHMENT_TYPE_INVALID',
    ],
    [
      'a type that is too long',
      { 'content-type': `text/plain; a=${'b'.repeat(256)}` },
      415,
      'ATTACHMENT_TYPE_INVALID',
    ],
  ])('with %s is rejected', async (_, headers, status, code) => {
    const reply = await at.put('n', TEXT, headers as Record<string, string>)
    expect([reply.status, reply.json.code]).toEqual([status, code])
    expect(await at.names()).toEqual([])
  })

  it.each([
    ['a missing database', '/api/nuts/a/attachments/n', 404, 'DATABASE_NOT_FOUND'],
    ['a missing item', '/api/fruit/b/attachments/n', 404, 'ITEM_NOT_FOUND'],
    ['a reserved database', '/api/config/a/attachments/n', 400, 'DATABASE_NAME_RESERVED'],
    ['a name with a slash', `${ITEM}/attachments/a%2Fb`, 400, 'ATTACHMENT_NAME_INVALID'],
    ['a name with a newline', `${ITEM}/attachments/a%0Ab`, 400, 'ATTACHMENT_NAME_INVALID'],
    [
      'a name that is too long',
      `${ITEM}/attachments/${'x'.repeat(257)}`,
      400,
      'ATTACHMENT_NAME_INVALID',
    ],
  ])('an upload to %s is rejected', async (_, path, status, code) => {
    const reply = await at.node.send('PUT', path, TEXT, BYTES)
    expect([reply.status, reply.json.code]).toEqual([status, code])
    expect(at.files()).toEqual([])
  })

  it('an upload whose item is deleted during the upload leaves no file; a concurrent upload of the same bytes is kept', async () => {
    await at.node.send('POST', '/api/fruit', { id: 'b' })
    const { socket, received } = await beginUpload(`Content-Length: ${TEXT.length}`, 'the quick')
    await until('the folder has one file', () => at.files().length === 1)
    await at.node.send('DELETE', ITEM)
    await at.node.send('PUT', '/api/fruit/b/attachments/n', TEXT, BYTES)
    socket.write(' brown fox')
    await until('ITEM_NOT_FOUND has arrived', () => received().includes('ITEM_NOT_FOUND'))
    await until('the folder has one file', () => at.files().length === 1)
    expect((await at.node.send('GET', '/api/fruit/b/attachments/n')).text).toBe(TEXT)
  })

  it('an upload of the same bytes by concurrent clients stores only one blob', async () => {
    const all = Array.from({ length: 20 }, (_, at) => `n${at}`)
    const replies = await Promise.all(all.map((name) => at.put(name, TEXT)))
    expect(replies.map(({ status }) => status)).toEqual(all.map(() => 200))
    expect(at.files()).toEqual([fileOf(TEXT)])
    expect(await at.names()).toEqual(all.toSorted())
  })
})

it('uploads and downloads 64 MiB with bounded memory, and resumes the download by Range', async () => {
  const mib = 64
  const block = Buffer.alloc(1024 * 1024, 'daicho ')
  const expected = shaOf(Buffer.concat(Array.from({ length: mib }, () => block)))
  const path = `${ITEM}/attachments/film`
  await at.put('film', 'short, so that all code is loaded')
  const before = process.memoryUsage.rss()
  let most = before
  const watch = setInterval(() => {
    most = Math.max(most, process.memoryUsage.rss())
  }, 5)
  const status = await new Promise((resolve, reject) => {
    const upload = request(`${at.node.url}${path}`, { method: 'PUT' }, (reply) => {
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
  const stored = (await at.node.send('HEAD', path)).headers.get('etag')
  expect(stored).toBe(`"${expected}"`)
  clearInterval(watch)
  // Includes the memory of the client, which runs in this process.
  expect((most - before) / 1024 / 1024).toBeLessThan(60)

  const resumed = await at.node.send('GET', path, undefined, {
    range: `bytes=${63 * 1024 * 1024}-`,
    'if-range': String(stored),
  })
  expect([resumed.status, resumed.text.length]).toEqual([206, 1024 * 1024])
  expect(resumed.text).toBe(block.toString())
})

/** Returns the number of blob files that this process has open. */
const openContents = () =>
  readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(join(at.folder, 'attachments'))
    } catch {
      return false
    }
  }).length

describe.skipIf(!existsSync('/proc/self/fd'))('a download (checked in /proc)', () => {
  const large = Buffer.alloc(48 * 1024 * 1024, 'x')
  /** Requests the blob, and reads nothing. */
  async function ask() {
    const { hostname, port } = new URL(at.node.url)
    const socket = connect(Number(port), hostname)
    onTestFinished(() => void socket.destroy())
    socket.on('error', () => {})
    socket.pause()
    socket.write(`GET ${ITEM}/attachments/n HTTP/1.1\r\nHost: localhost\r\n\r\n`)
    await until('the node has the blob open', () => openContents() === 1)
    return socket
  }

  it('closes its file when it is complete, when the client disconnects, and when it stalls', async () => {
    await at.node.close()
    at = await AttachedNode.start({ limits: { requestTimeoutMs: IDLE_MS } })
    await at.put('n', large)
    expect((await at.get('n')).text.length).toBe(large.length)
    await until('the node has no blob open', () => openContents() === 0)
    const retried = await ask()
    retried.destroy()
    await until('the node has no blob open', () => openContents() === 0)
    await ask()
    await until('the node has no blob open', () => openContents() === 0)
  })
})
