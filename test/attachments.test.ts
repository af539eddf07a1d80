// Attachments over a real socket: uploads, downloads, byte ranges and preconditions.
import { hash } from 'node:crypto'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { AttachedNode, BYTES, fileOf, ITEM, shaOf } from './support/attached.ts'
import { startLedgerNode } from './support/ledger-node.ts'
import { exchange } from './support/raw-socket.ts'

const TEXT = 'the quick brown fox'

let at: AttachedNode
beforeEach(async () => {
  at = await AttachedNode.start()
})

describe('attachments', () => {
  it('attachments are returned byte for byte with their type and name, and the ledger records their SHA-256', async () => {
    const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, at) => (at * 31) & 255))
    const type = 'text/html; charset="utf-8"'
    const reply = await at.put('Größe 台帳.html', bytes, { 'content-type': type })
    const attachment = {
      content_type: type,
      length: 300_000,
      name: 'Größe 台帳.html',
      sha256: shaOf(bytes),
    }
    expect([reply.status, reply.json]).toEqual([200, { status: true, attachment }])
    const position = `${at.node.service.serverId}/2.0`
    expect(reply.headers.get('etag')).toBe(`"${attachment.sha256}"`)
    expect(reply.headers.get('ledger-position')).toBe(position)

    const path = `${ITEM}/attachments/${encodeURIComponent(attachment.name)}`
    const got = await fetch(at.node.url + path)
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
    const head = await fetch(at.node.url + path, { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
    expect(Object.fromEntries(head.headers)).toMatchObject(expected)

    expect(await at.entries()).toEqual([
      {
        serverid: at.node.service.serverId,
        method: 'create_attachment',
        db: 'fruit',
        id: 'a',
        attachment,
      },
    ])
  })

  it('attachments are listed in the order of their names, with limit and offset, and are not part of the item', async () => {
    for (const name of ['c', 'a', 'b', 'é']) await at.put(name, `content of ${name}`)
    const list = async (query: string) =>
      (await at.node.send('GET', `${ITEM}/attachments${query}`)).json
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
    // The list continues after a name, even if the attachment with this name no longer exists.
    const rest = await list('?limit=2&after=aa')
    expect(rest.attachments.map(({ name }: { name: string }) => name)).toEqual(['b', 'c'])
    expect((await at.node.send('GET', ITEM)).text).toBe('{"status":true,"item":{"id":"a"}}')
  })

  it('attachments are replaced by a PUT with the same name, and the old bytes stay on disk because an entry refers to them', async () => {
    await at.put('n', 'old', { 'content-type': 'text/a' })
    await at.put('n', 'new', { 'content-type': 'text/b' })
    const { text, headers } = await at.get('n')
    expect([text, headers.get('content-type')]).toEqual(['new', 'text/b'])
    expect(at.files()).toEqual([fileOf('old'), fileOf('new')].toSorted())
    expect((await at.entries()).map(({ method }: { method: string }) => method)).toEqual([
      'create_attachment',
      'create_attachment',
    ])
  })

  it('attachments disappear when they, their item or their database are deleted', async () => {
    await at.put('n', TEXT)
    const deleted = await at.node.send('DELETE', `${ITEM}/attachments/n`)
    expect([deleted.status, deleted.text]).toEqual([200, '{"status":true}'])
    expect(deleted.headers.get('ledger-position')).toBe(`${at.node.service.serverId}/3.0`)
    expect((await at.entries()).at(-1)).toEqual({
      serverid: at.node.service.serverId,
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
    const missing = await at.get('n')
    expect([missing.status, missing.json.code]).toEqual([404, 'ATTACHMENT_NOT_FOUND'])
    expect((await at.node.send('DELETE', `${ITEM}/attachments/n`)).status).toBe(404)

    await at.put('n', TEXT)
    await at.node.send('DELETE', ITEM)
    expect((await at.get('n')).json.code).toBe('ITEM_NOT_FOUND')
    await at.node.send('POST', '/api/fruit', { id: 'a' })
    expect([await at.names(), (await at.get('n')).json.code]).toEqual([[], 'ATTACHMENT_NOT_FOUND'])
    await at.put('n', TEXT)
    await at.node.send('DELETE', '/api/fruit')
    expect((await at.get('n')).json.code).toBe('DATABASE_NOT_FOUND')
    await at.node.send('POST', '/api/fruit')
    await at.node.send('POST', '/api/fruit', { id: 'a' })
    expect(await at.names()).toEqual([])
  })

  it('attachments can be empty', async () => {
    expect((await at.put('nothing', '')).json.attachment).toMatchObject({ length: 0 })
    const { status, text, headers } = await at.get('nothing')
    expect([status, text, headers.get('content-length')]).toEqual([200, '', '0'])
    expect((await at.get('nothing', { range: 'bytes=0-' })).status).toBe(416)
  })

  it('attachments can be read from a node without a folder, and survive the restart of a node with a folder', async () => {
    const passing = await startLedgerNode()
    onTestFinished(() => passing.close())
    await passing.send('POST', '/api/fruit')
    await passing.send('POST', '/api/fruit', { id: 'a' })
    await passing.send('PUT', `${ITEM}/attachments/n`, TEXT, BYTES)
    expect((await passing.send('GET', `${ITEM}/attachments/n`)).text).toBe(TEXT)

    await at.put('n', TEXT)
    await at.node.close()
    expect(at.files()).toEqual([fileOf(TEXT)])
    const again = await startLedgerNode({ folder: at.folder })
    expect((await again.send('GET', `${ITEM}/attachments/n`)).text).toBe(TEXT)
    await again.close()
  })
})

describe('ranges and preconditions', () => {
  beforeEach(async () => {
    await at.put('n', '0123456789', { 'content-type': 'text/plain' })
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
  ])('returns the part for Range: %s', async (range, text, contentRange) => {
    const reply = await at.get('n', { range })
    expect([reply.status, reply.text]).toEqual([206, text])
    expect(reply.headers.get('content-range')).toBe(contentRange)
    expect(reply.headers.get('content-length')).toBe(String(text.length))
    expect(reply.headers.get('etag')).toBe(etag)
  })

  it('returns several ranges as multipart/byteranges with the right length', async () => {
    const reply = await at.get('n', { range: 'bytes=7-,0-1,-1' })
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
    ['an invalid range among valid ranges', 'bytes=0-1,x'],
    ['overlapping ranges longer than the blob', 'bytes=0-,0-'],
    ['more than 16 parts', `bytes=${Array.from({ length: 17 }, () => '1-1').join(',')}`],
  ])('ignores a Range with %s', async (_, range) => {
    const reply = await at.get('n', { range })
    expect([reply.status, reply.text]).toEqual([200, '0123456789'])
  })

  it('returns 416 with the length for a Range beyond the end', async () => {
    for (const range of ['bytes=10-', 'bytes=-0', 'bytes=99999999999999999999-', 'bytes=10-,20-']) {
      const reply = await at.get('n', { range })
      expect([range, reply.status, reply.json.code]).toEqual([range, 416, 'RANGE_UNSATISFIABLE'])
      expect(reply.headers.get('content-range')).toBe('bytes */10')
    }
  })

  it('If-Range returns the part if the blob is unchanged, and otherwise the whole blob', async () => {
    const range = 'bytes=4-'
    expect((await at.get('n', { range, 'if-range': etag })).text).toBe('456789')
    for (const other of [`W/${etag}`, '"x"', 'Wed, 21 Oct 2026 07:28:00 GMT']) {
      expect((await at.get('n', { range, 'if-range': other })).status).toBe(200)
    }
  })

  it('GET and HEAD return 304 without a body for a matching If-None-Match, and 412 for a failing If-Match', async () => {
    const path = `${ITEM}/attachments/n`
    for (const method of ['GET', 'HEAD']) {
      const ask = (headers: Record<string, string>) =>
        at.node.send(method, path, undefined, headers)
      for (const tag of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
        const reply = await ask({ 'if-none-match': tag })
        expect([tag, reply.status, reply.text]).toEqual([tag, 304, ''])
        expect(reply.headers.get('etag')).toBe(etag)
      }
      expect((await ask({ 'if-none-match': '"x"' })).status).toBe(200)
      expect((await ask({ 'if-match': '"x"' })).status).toBe(412)
      expect((await ask({ 'if-match': `"y", ${etag}` })).status).toBe(200)
    }
    expect((await at.node.send('HEAD', path, undefined, { range: 'bytes=0-1' })).status).toBe(200)
  })

  it('PUT and DELETE return 412 and change nothing if If-Match or If-None-Match fails', async () => {
    const other = { 'if-match': '"x"' }
    const absent = { 'if-none-match': '*' }
    const codes = []
    for (const headers of [other, absent, { 'if-none-match': etag }]) {
      codes.push((await at.put('n', 'new', headers)).json.code)
    }
    codes.push((await at.put('m', 'new', { 'if-match': '*' })).json.code)
    codes.push((await at.node.send('DELETE', `${ITEM}/attachments/n`, undefined, other)).json.code)
    expect(codes).toEqual(codes.map(() => 'PRECONDITION_FAILED'))
    expect(at.files()).toHaveLength(1)
    expect((await at.put('m', 'new', absent)).status).toBe(200)
    expect((await at.put('n', 'next', { 'if-match': etag })).status).toBe(200)
    const seen = { 'if-match': `"${shaOf('next')}"` }
    const all = await Promise.all(['a', 'b', 'c', 'd'].map((text) => at.put('n', text, seen)))
    expect(all.map(({ status }) => status).toSorted()).toEqual([200, 412, 412, 412])
    const last = { 'if-match': (await at.get('n')).headers.get('etag') ?? '' }
    expect((await at.node.send('DELETE', `${ITEM}/attachments/n`, undefined, last)).status).toBe(
      200,
    )
  })

  it('returns 404 for a missing attachment or item before it checks preconditions', async () => {
    const seen = { 'if-match': etag }
    const missing = await at.node.send('DELETE', `${ITEM}/attachments/x`, undefined, seen)
    expect([missing.status, missing.json.code]).toEqual([404, 'ATTACHMENT_NOT_FOUND'])
    const nowhere = await at.node.send('PUT', '/api/fruit/x/attachments/n', 'new', seen)
    expect([nowhere.status, nowhere.json.code]).toEqual([404, 'ITEM_NOT_FOUND'])
  })

  it('answers pipelined requests in order', async () => {
    const line = (method: string, range: string) =>
      `${method} ${ITEM}/attachments/n HTTP/1.1\r\nHost: localhost\r\nRange: ${range}\r\n\r\n`
    const pieces = [line('GET', 'bytes=0-1') + line('GET', 'bytes=99-') + line('GET', 'bytes=8-')]
    const { replies } = await exchange(at.node.url, pieces, { replies: 3 })
    expect(replies.map(({ status }) => status)).toEqual([206, 416, 206])
    expect([replies[0]?.body, replies[2]?.body]).toEqual(['01', '89'])
  })
})

describe('browsers', () => {
  it('browsers cannot execute an upload or show it in a frame', async () => {
    await at.put('x.js', 'alert(1)', { 'content-type': 'text/javascript' })
    for (const use of ['script', 'style', 'worker', 'serviceworker', 'object', 'embed']) {
      const reply = await at.get('x.js', { 'sec-fetch-dest': use, 'sec-fetch-site': 'same-origin' })
      expect([use, reply.status, reply.json.code]).toEqual([use, 403, 'ATTACHMENT_NOT_CODE'])
    }
    expect((await at.get('x.js', { 'sec-fetch-dest': 'document' })).status).toBe(200)
    expect((await at.get('x.js', { 'sec-fetch-site': 'cross-site' })).status).toBe(403)
  })
})
