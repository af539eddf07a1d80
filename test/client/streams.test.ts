// The client's history, time travel and attachment calls, against replies that follow the specification.
import { gzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { LedgerClient } from '../../src/client/index.ts'
import { broken, collected, fakeNode, json, noted } from './fake-node.ts'

const FILE = { name: 'a b.txt', content_type: 'text/plain', length: 5, sha256: 'f'.repeat(64) }
const PUT = json(200, { status: true, attachment: FILE })
const item = (url: string) =>
  new LedgerClient(url, { timing: noted() }).database('fruit').attachments('x/y')

it('uploads an attachment as bytes, text, blob or stream, with its type', async () => {
  const node = await fakeNode(PUT)
  const attachments = item(node.url)
  const stream = () => new Blob(['hello']).stream()
  for (const content of ['hello', new Blob(['hello']), Buffer.from('hello'), stream(), stream]) {
    expect(await attachments.put('a b.txt', content, { contentType: 'text/plain' })).toEqual(FILE)
    const request = node.requests.at(-1)
    expect([request?.method, request?.path, request?.body]).toEqual([
      ...['PUT', '/api/fruit/x%2Fy/attachments/a%20b.txt', 'hello'],
    ])
    expect(request?.headers['content-type']).toBe('text/plain')
  }
  await attachments.put('a b.txt', 'hello')
  expect(node.requests.at(-1)?.headers['content-type']).toBe('application/octet-stream')
})

it('retries a body that can be sent again, but not a stream that has started', async () => {
  const node = await fakeNode(broken, PUT, broken)
  const attachments = item(node.url)
  const stream = () => new Blob(['hello']).stream()
  expect(await attachments.put('a', stream)).toEqual(FILE)
  expect(node.requests.map(({ body }) => body)).toEqual(['hello', 'hello'])
  await expect(attachments.put('a', stream())).rejects.toMatchObject({ code: 'UNREACHABLE' })
  expect(node.requests).toHaveLength(3)
})

it('downloads an attachment as a stream, whole or in part', async () => {
  const node = await fakeNode((response, { headers }) => {
    const part =
      headers.range === 'bytes=1-3' ? 'ell' : headers.range === 'bytes=2-' ? 'llo' : 'hello'
    response.writeHead(part === 'hello' ? 200 : 206, {
      'content-type': 'text/plain',
      'content-length': part.length,
      'content-range': `bytes ${5 - part.length - (part === 'ell' ? 1 : 0)}-${part === 'ell' ? 3 : 4}/5`,
      etag: '"f"',
    })
    response.end(part)
  })
  for (const [range, expected] of [
    [undefined, 'hello'],
    [{ from: 1, to: 3 }, 'ell'],
    [{ from: 2 }, 'llo'],
  ] as const) {
    const got = await item(node.url).get('a b.txt', range === undefined ? {} : { range })
    expect([got.contentType, got.length, got.etag]).toEqual(['text/plain', expected.length, '"f"'])
    expect(await new Response(got.stream).text()).toBe(expected)
  }
})

it('refuses a reply with other bytes of an attachment than requested', async () => {
  for (const [status, contentRange] of [
    [200, ''],
    [206, ''],
    [206, 'bytes 0-2/5'],
    [206, 'bytes 1-4/5'],
  ] as const) {
    const node = await fakeNode((response) => {
      response.writeHead(status, { 'content-range': contentRange }).end('hello')
    })
    const got = item(node.url).get('a', { range: { from: 1, to: 3 } })
    await expect(got).rejects.toMatchObject({ code: 'REPLY_MALFORMED', status })
  }
})

it('lists all attachments of an item, and deletes them', async () => {
  const page = (length: number) =>
    json(200, { status: true, attachments: Array(length).fill(FILE), limit: 500, offset: 0 })
  const node = await fakeNode(page(500), page(2), json(200, { status: true }))
  expect(await collected(item(node.url).list())).toHaveLength(502)
  await item(node.url).delete('a')
  expect(node.requests.map(({ method, path }) => [method, path])).toEqual([
    ['GET', '/api/fruit/x%2Fy/attachments?limit=500'],
    ['GET', '/api/fruit/x%2Fy/attachments?limit=500&after=a%20b.txt'],
    ['DELETE', '/api/fruit/x%2Fy/attachments/a'],
  ])
})

it('reads the whole history, and an item and its attachment at an earlier height', async () => {
  const first = { position: '1.0', timestamp: 1, method: 'create_item', item: { id: 'x', n: 1 } }
  const last = { position: '4.2', timestamp: 2, method: 'delete_item' }
  const node = await fakeNode(
    json(200, { status: true, history: [first], limit: 500, cursor: '1.0' }),
    json(200, { status: true, history: [last], limit: 500, cursor: null }),
    json(200, { status: true, item: first.item }, { 'ledger-position': '7/1.0', etag: '"1.0"' }),
    json(404, { status: false }),
    (response) => response.end('then'),
    json(200, { status: true, attachments: [] }),
  )
  const fruit = new LedgerClient(node.url).database<{ n: number }>('fruit')
  expect(await collected(fruit.history('x'))).toEqual([first, last])
  expect((await fruit.read('x', { at: 3 }))?.item).toEqual({ id: 'x', n: 1 })
  expect(await fruit.read('x', { at: 5 })).toBeNull()
  const { stream } = await fruit.attachments('x').get('a', { at: 3 })
  expect(await new Response(stream).text()).toBe('then')
  const time = '2026-12-31T23:59:59Z'
  expect(await collected(fruit.attachments('x').list({ at: time }))).toEqual([])
  expect(node.requests.map(({ path }) => path)).toEqual([
    '/api/fruit/x/history?limit=500',
    '/api/fruit/x/history?limit=500&cursor=1.0',
    '/api/fruit/x?at=3',
    '/api/fruit/x?at=5',
    '/api/fruit/x/attachments/a?at=3',
    `/api/fruit/x/attachments?limit=500&at=${encodeURIComponent(time)}`,
  ])
})

it('knows no length of an attachment that a proxy has compressed', async () => {
  const bytes = gzipSync('a'.repeat(1_000))
  const node = await fakeNode((response) => {
    const headers = { 'content-encoding': 'gzip', 'content-length': bytes.length }
    response.writeHead(200, headers).end(bytes)
  })
  const got = await new LedgerClient(node.url).database('fruit').attachments('x').get('a')
  expect([got.length, await new Response(got.stream).text()]).toEqual([null, 'a'.repeat(1_000)])
})

it('reads the pages of a list with a custom order by offset, and of other lists by the position of the last item', async () => {
  const page = (...items: string[]) =>
    json(200, { status: true, items, docs: items.map((id) => ({ id })), cursor: '3.1' })
  const filter = { where: { n: { gt: 1 } } }
  for (const [order, second] of [
    [undefined, { cursor: '3.1' }],
    [[], { cursor: '3.1' }],
    [['n DESC'], { offset: '2' }],
    ['n DESC', { offset: '2' }],
  ] as const) {
    const node = await fakeNode(page('a', 'b'), page('c'))
    const fruit = new LedgerClient(node.url).database('fruit')
    const filterWithOrder = { ...filter, order }
    const items = await collected(fruit.query({ filter: filterWithOrder, pageSize: 2 }))
    expect(items.map(({ id }) => id)).toEqual(['a', 'b', 'c'])
    const query = Object.fromEntries(new URL(node.requests[1]?.path ?? '', node.url).searchParams)
    const { filter: sent, ...rest } = query
    expect(JSON.parse(sent ?? '')).toEqual(order === undefined ? filter : filterWithOrder)
    expect(rest).toEqual({ docs: 'true', limit: '2', ...second })
  }
})

it('ends each list whose next page is the same page again', async () => {
  const revision = { position: '1.0', timestamp: 1, method: 'create_item' }
  const attachments = Array.from({ length: 500 }, (_, n) => ({ name: `${n}` }))
  const page = json(200, {
    ...{ status: true, serverid: 7, items: ['a'], docs: [{ id: 'a' }], cursor: '3.1' },
    ...{ history: [revision], attachments, changes: [], next: 4, revisions: 1 },
  })
  const node = await fakeNode(page)
  const ledger = new LedgerClient(node.url)
  const fruit = ledger.database('fruit')
  const lists: (() => AsyncIterable<unknown>)[] = [
    () => fruit.query({ pageSize: 1 }),
    () => fruit.history('a'),
    () => fruit.attachments('a').list(),
    () => ledger.log(),
  ]
  for (const list of lists) {
    await expect(collected(list())).rejects.toMatchObject({ code: 'REPLY_MALFORMED' })
  }
})

it('reads a list in smaller pages if a page is larger than a reply may be', async () => {
  const sizes: number[] = []
  const answer = (url: string) => {
    const { searchParams } = new URL(url)
    const [limit, cursor] = [Number(searchParams.get('limit')), searchParams.get('cursor')]
    sizes.push(limit)
    if (limit === 400) return [new TextEncoder().encode(`[${'0,'.repeat(8_000_001)}0]`)]
    if (limit > 7) return [new Uint8Array(1), new Uint8Array(256 * 1024 * 1024)]
    const from = cursor === 'start' ? 0 : Number(cursor)
    const items = Array.from({ length: Math.min(limit, 9 - from) }, (_, n) => `i${from + n}`)
    const next = url.includes('/history') && from + limit > 8 ? null : `${from + limit}`
    const reply = { status: true, items, history: items, cursor: next }
    return [new TextEncoder().encode(JSON.stringify(reply))]
  }
  const fetch = async (url: unknown) => new Response(ReadableStream.from(answer(String(url))))
  const fruit = new LedgerClient('http://127.0.0.1:1', { fetch }).database('fruit')
  const ids = Array.from({ length: 9 }, (_, n) => `i${n}`)
  expect(await collected(fruit.ids({ pageSize: 400 }))).toEqual(ids)
  expect(await collected(fruit.history('x', { pageSize: 400 }))).toEqual(ids)
  expect(sizes).toEqual([400, 50, 7, 7, 400, 50, 7, 7])
})

it('sends preconditions, and reports a failed precondition', async () => {
  const failed = json(412, { status: false, code: 'PRECONDITION_FAILED', message: 'changed' })
  const node = await fakeNode(failed)
  const fruit = new LedgerClient(node.url).database('fruit')
  const refused = { code: 'PRECONDITION_FAILED', status: 412 }
  await expect(fruit.patch('x', {}, { ifMatch: '"1.0"' })).rejects.toMatchObject(refused)
  await expect(fruit.replace('x', {}, { ifAbsent: true })).rejects.toMatchObject(refused)
  const [patch, replace] = node.requests.map(({ headers }) => headers)
  expect([patch?.['if-match'], patch?.['if-none-match']]).toEqual(['"1.0"', undefined])
  expect([replace?.['if-match'], replace?.['if-none-match']]).toEqual([undefined, '*'])
})
