// Invalid request bodies. Each reply has the expected status and the error format of the ledger, the chain does not
// change, and the next request is answered.
import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { startLedgerNode } from '../support/ledger-node.ts'
import { exchange, type RawReply } from '../support/raw-socket.ts'
import { expectRefusal, type RefusingNode, startRefusingNode } from '../support/refusals.ts'

const BODY_BYTES_MAX = 10 * 1024 * 1024

let node: RefusingNode
beforeAll(async () => {
  node = await startRefusingNode()
})
afterEach(() => node.expectUnmoved())
afterAll(() => node.close())

/** Every method and path that takes a body. */
const TAKERS = [
  ['POST', '/api/a'],
  ['POST', '/api/a/x'],
  ['PATCH', '/api/a/x'],
  ['POST', '/api/ledgers'],
] as const

function head(method: string, path: string, lines: readonly string[]): string {
  return `${method} ${path} HTTP/1.1\r\nHost: ${new URL(node.url).host}\r\n${lines
    .map((line) => `${line}\r\n`)
    .join('')}\r\n`
}

async function sendBytes(
  method: string,
  path: string,
  body: Uint8Array,
  type = 'application/json',
): Promise<RawReply> {
  const lines = [`Content-Type: ${type}`, `Content-Length: ${body.length}`]
  const { replies } = await exchange(node.url, [head(method, path, lines), body], { replies: 1 })
  return replies[0] ?? { status: 0, headers: new Map(), body: '' }
}

const deep = (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`

const BODIES: [what: string, body: string | Uint8Array, status: number, code: string][] = [
  ['depth 65', deep(65), 422, 'JSON_TOO_DEEP'],
  ['depth 65 in arrays', '['.repeat(65) + ']'.repeat(65), 422, 'JSON_TOO_DEEP'],
  ['a million levels', '['.repeat(1_000_000), 422, 'JSON_TOO_DEEP'],
  ['9007199254740993', '{"n":9007199254740993}', 422, 'JSON_NUMBER_INEXACT'],
  ['1E400', '{"n":1E400}', 422, 'JSON_NUMBER_INEXACT'],
  ['-1E400', '{"n":-1E400}', 422, 'JSON_NUMBER_INEXACT'],
  ['1E-400', '{"n":1E-400}', 422, 'JSON_NUMBER_INEXACT'],
  ['a lone surrogate', '{"s":"\\ud800"}', 422, 'JSON_LONE_SURROGATE'],
  ['a lone surrogate as a name', '{"\\udfff":1}', 422, 'JSON_LONE_SURROGATE'],
  ['duplicate keys', '{"a":1,"a":1}', 422, 'JSON_DUPLICATE_MEMBER'],
  ['duplicate keys, one escaped', '{"a":1,"\\u0061":2}', 422, 'JSON_DUPLICATE_MEMBER'],
  ['duplicate ids', '{"id":"p","id":"q"}', 422, 'JSON_DUPLICATE_MEMBER'],
  ['__proto__', '{"__proto__":{"polluted":true}}', 422, 'JSON_FORBIDDEN_MEMBER'],
  ['__proto__, escaped and deep', '{"a":[{"\\u005f_proto__":1}]}', 422, 'JSON_FORBIDDEN_MEMBER'],
  ['invalid UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 400, 'JSON_NOT_UTF8'],
  ['truncated UTF-8', Buffer.from('{"a":"ä"}').subarray(0, 7), 400, 'JSON_NOT_UTF8'],
  ['an overlong slash', Buffer.from('{"a":"\xc0\xaf"}', 'latin1'), 400, 'JSON_NOT_UTF8'],
  ['a surrogate in UTF-8', Buffer.from('{"a":"\xed\xa0\x80"}', 'latin1'), 400, 'JSON_NOT_UTF8'],
  ['UTF-16', Buffer.from('\ufeff{"a":1}', 'utf16le'), 400, 'JSON_NOT_UTF8'],
  ['half an object', '{"a":', 400, 'JSON_MALFORMED'],
  ['two objects', '{}{}', 400, 'JSON_MALFORMED'],
  ['a byte order mark', '\ufeff{}', 400, 'JSON_MALFORMED'],
  ['a comment', '{/* */}', 400, 'JSON_MALFORMED'],
  ['spaces alone', '   ', 400, 'JSON_MALFORMED'],
  ['NaN', '{"n":NaN}', 400, 'JSON_MALFORMED'],
]

it.each(BODIES)('rejects a body of %s', async (_what, body, status, code) => {
  for (const [method, path] of TAKERS) {
    expectRefusal(await sendBytes(method, path, Buffer.from(body)), status, code)
  }
  expect(Object.prototype).not.toHaveProperty('polluted')
})

it('rejects JSON that is neither an item nor a list of items, on every path', async () => {
  for (const body of [
    'null',
    '0',
    '1',
    'false',
    'true',
    '""',
    '"text"',
    '[null]',
    '[1]',
    '[[]]',
    '[[{}]]',
    '[{},null]',
    '[""]',
  ]) {
    for (const [method, path] of [...TAKERS, ['POST', '/api/new'] as const]) {
      const reply = await sendBytes(method, path, Buffer.from(body))
      expect([method, path, body, reply.status]).toEqual([method, path, body, 400])
      expect(JSON.parse(reply.body).status).toBe(false)
    }
  }
  expect((await node.send('GET', '/api/dbs')).json.dbs).toEqual(['a'])
})

it('rejects what would be read as something else: another charset, a merge patch without PATCH, a form as an attachment', async () => {
  const item = Buffer.from('{"id":"charset"}')
  const cases: [string, string, string, number][] = [
    ['POST', '/api/a', 'application/json; charset=iso-8859-1', 415],
    ['PATCH', '/api/a/x', 'application/merge-patch+json;charset="UTF-16"', 415],
    ['POST', '/api/a/x', 'application/merge-patch+json', 415],
    ['POST', '/api/a', 'Application/Merge-Patch+JSON; charset=utf-8', 415],
    ['PUT', '/api/a/x/attachments/f', 'multipart/form-data; boundary=x', 415],
    ['POST', '/api/none', 'application/json; charset="UTF-8"', 404],
    ['PUT', '/api/a/none/attachments/f', 'application/json; charset=iso-8859-1', 404],
  ]
  for (const [method, path, type, status] of cases) {
    const headers = { 'content-type': type }
    const reply = await node.send(method, path, item, headers)
    expect([method, path, type, reply.status]).toEqual([method, path, type, status])
    if (status === 415) expect(reply.json.code).toBe('CONTENT_TYPE_UNKNOWN')
  }
})

it('answers 404 with a hint for a path with a slash at its end', async () => {
  for (const [method, path] of [
    ...[
      ['GET', '/api/dbs/'],
      ['GET', '/api/serverid/'],
      ['GET', '/api/a/'],
      ['DELETE', '/api/a/'],
    ],
    ...[
      ['POST', '/api/ledgers/'],
      ['GET', '/api//a'],
      ['GET', '/api/a/x/attachments/'],
    ],
  ] as const) {
    const { status, json } = await node.send(method, path, method === 'POST' ? {} : undefined)
    expect([method, path, status, json.code]).toEqual([method, path, 404, 'PATH_UNKNOWN'])
    expect(json.message).toContain('leave out the slash at its end')
  }
})

it('rejects an empty list, an empty unit of work, and more entries than the limit', async () => {
  const many = Array.from({ length: 10_001 }, () => ({}))
  for (const [path, body, status, code] of [
    ['/api/a', [], 400, 'UNIT_EMPTY'],
    ['/api/ledgers', { entries: [] }, 400, 'UNIT_EMPTY'],
    ['/api/a', many, 413, 'UNIT_TOO_LARGE'],
    [
      '/api/ledgers',
      { entries: many.map((item) => ({ method: 'create_item', db: 'a', item })) },
      413,
      'UNIT_TOO_LARGE',
    ],
  ] as const) {
    expectRefusal(await sendBytes('POST', path, Buffer.from(JSON.stringify(body))), status, code)
  }
})

it('rejects an item that is too large in canonical form', async () => {
  const grown = `{"n":[${'1E20,'.repeat(600_000)}1]}` // 21 characters each in canonical form
  for (const path of ['/api/a', '/api/a/x']) {
    expectRefusal(await sendBytes('POST', path, Buffer.from(grown)), 413, 'ITEM_TOO_LARGE')
  }
})

it('returns 413 for a body of more than 10 MiB in any encoding, and the client can read the reply', async () => {
  const body = Buffer.alloc(BODY_BYTES_MAX + 1, 0x20)
  body.write('{}')
  for (const [method, path] of TAKERS) {
    expectRefusal(await sendBytes(method, path, body), 413, 'BODY_TOO_LARGE')
  }
  const chunked = head('POST', '/api/a', [
    'Content-Type: application/json',
    'Transfer-Encoding: chunked',
  ])
  const pieces = [chunked, `${body.length.toString(16)}\r\n`, body, '\r\n0\r\n\r\n']
  const { replies } = await exchange(node.url, pieces, { replies: 1 })
  expectRefusal(replies[0], 413, 'BODY_TOO_LARGE')
  // A client usually sends the whole body before it reads the reply. If the node closed the connection before it had
  // read the body, the client would sometimes lose the reply.
  for (let time = 0; time < 10; time += 1) {
    const sent = await node.send('POST', '/api/a', body)
    expect([sent.status, sent.json.code]).toEqual([413, 'BODY_TOO_LARGE'])
  }
  // The request declares its length and sends no body.
  const announced = head('POST', '/api/a', [
    'Content-Type: application/json',
    'Content-Length: 99999999999',
  ])
  const early = await exchange(node.url, [announced], { replies: 1 })
  expectRefusal(early.replies[0], 413, 'BODY_TOO_LARGE')
})

it('does not reject a body of exactly 10 MiB for its length', async () => {
  const body = Buffer.alloc(BODY_BYTES_MAX, 0x20)
  body.write('{')
  expectRefusal(await sendBytes('POST', '/api/a', body), 400, 'JSON_MALFORMED')
})

it('rejects a body without a JSON type, which a form on another site could send', async () => {
  for (const type of [
    'text/plain',
    'text/plain; charset=utf-8',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/octet-stream',
    'application/jsonx',
    'text/json',
    '*/*',
    'nonsense',
  ]) {
    for (const [method, path] of [...TAKERS, ['POST', '/api/new'] as const]) {
      const reply = await sendBytes(method, path, Buffer.from('{"a":1}'), type)
      expectRefusal(reply, 415, 'CONTENT_TYPE_UNKNOWN')
    }
  }
  const bare = head('POST', '/api/a', ['Content-Length: 2'])
  const { replies } = await exchange(node.url, [`${bare}{}`], { replies: 1 })
  expectRefusal(replies[0], 415, 'CONTENT_TYPE_UNKNOWN')
})

it('rejects an unknown Content-Encoding or Transfer-Encoding', async () => {
  for (const encoding of ['gzip', 'br', 'deflate', 'zstd', 'x', 'identity, gzip', '']) {
    for (const [method, path] of TAKERS) {
      const lines = [
        'Content-Type: application/json',
        `Content-Encoding: ${encoding}`,
        'Content-Length: 2',
      ]
      const text = `${head(method, path, lines)}{}`
      const { replies } = await exchange(node.url, [text], { replies: 1 })
      expectRefusal(replies[0], 415, 'CONTENT_ENCODING_UNKNOWN')
    }
  }
  const lines = ['Content-Type: application/json', 'Transfer-Encoding: gzip, chunked']
  const text = `${head('POST', '/api/a', lines)}2\r\n{}\r\n0\r\n\r\n`
  const { replies } = await exchange(node.url, [text], { replies: 1 })
  expectRefusal(replies[0], 415, 'CONTENT_ENCODING_UNKNOWN')
})

it('rejects a body that is still incomplete after the timeout, and accepts a faster body', async () => {
  const impatient = await startLedgerNode({ limits: { requestTimeoutMs: 1_500 } })
  await impatient.send('POST', '/api/a')
  const lines = ['Content-Type: application/json', 'Content-Length: 100']
  const slow = [
    [head('POST', '/api/a', lines), '{"a":'],
    [head('POST', '/api/a', lines)],
    [head('POST', '/api/a', ['Content-Type: application/json', 'Transfer-Encoding: chunked']), '1'],
    ['POST /api/a HTTP/1.1\r\nHost:'],
    ['POST'],
  ]
  const ended = await Promise.all(slow.map((pieces) => exchange(impatient.url, pieces)))
  for (const { replies, closed } of ended) {
    expect(closed).toBe(true)
    expectRefusal(replies[0], 408, 'REQUEST_TIMEOUT')
  }
  expect((await impatient.send('GET', '/api/a')).json.items).toEqual([])
  await impatient.close()
})

it('returns 503 for a body that exceeds the memory budget of all bodies', async () => {
  const bounded = await startLedgerNode({ limits: { bodiesBytesMax: BODY_BYTES_MAX } })
  await bounded.send('POST', '/api/a')
  const long = Buffer.from(JSON.stringify({ text: 'x'.repeat(6 * 1024 * 1024) }))
  const json = 'Content-Type: application/json'
  const lines = [json, `Content-Length: ${long.length}`]
  const half = long.subarray(0, long.length / 2)
  const { port } = new URL(bounded.url)
  const first = connect(Number(port), '127.0.0.1')
  first.write(head('POST', '/api/a', lines))
  first.write(half)
  // The node reserves memory for `first` when it has parsed its head. Until then, it may accept the requests of this
  // loop, so the loop ends only when a request is rejected.
  for (;;) {
    const { replies } = await exchange(bounded.url, [head('POST', '/api/a', lines), long], {
      replies: 1,
    })
    if (replies[0]?.status === 200) continue
    expectRefusal(replies[0], 503, 'BODIES_BUSY')
    break
  }
  const attached = await fetch(`${bounded.url}/api/a/none/attachments/long`, {
    method: 'PUT',
    body: long,
  })
  expect(attached.status).toBe(404)
  expect((await bounded.send('POST', '/api/a', { id: 'short' })).status).toBe(200)
  const answered = once(first, 'data')
  first.write(long.subarray(half.length))
  expect(String((await answered)[0])).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
  first.destroy()
  // Completed requests release their memory, so another long body is accepted.
  expect((await bounded.send('POST', '/api/a', { text: 'x'.repeat(6 * 1024 * 1024) })).status).toBe(
    200,
  )
  await bounded.close()
})

it('rejects an incomplete body, a body longer than declared, and a body with invalid chunks', async () => {
  const json = 'Content-Type: application/json'
  const chunked = [json, 'Transfer-Encoding: chunked']
  const short = [head('POST', '/api/a', [json, 'Content-Length: 10']), '{}']
  expectRefusal(
    (await exchange(node.url, short, { halfClose: true })).replies[0],
    400,
    'REQUEST_MALFORMED',
  )
  for (const pieces of [
    [head('POST', '/api/a', chunked), 'zz\r\n{}'],
    [head('POST', '/api/a', chunked), '2\r\n{}garbage'],
    [head('POST', '/api/a', [...chunked, 'Content-Length: 2']), '{}'],
    [head('POST', '/api/a', [json, 'Content-Length: -1'])],
    [head('POST', '/api/a', [json, 'Content-Length: 2', 'Content-Length: 3']), '{}'],
    [head('POST', '/api/a', [json, 'Content-Length: two']), '{}'],
  ]) {
    expectRefusal((await exchange(node.url, pieces)).replies[0], 400, 'REQUEST_MALFORMED')
  }
})

it('rejects an erasure with a misspelt member, and erases nothing', async () => {
  const erasing = await startLedgerNode()
  await erasing.send('POST', '/api/a')
  await erasing.send('POST', '/api/a', { id: 'x', secret: 1 })
  await erasing.send('POST', '/api/a/x', { secret: 2 })
  const { status, json } = await erasing.send('POST', '/api/a/x/erase', { position: ['1.0'] })
  expect([status, json.code]).toEqual([400, 'REQUEST_INVALID'])
  expect(json.message).toBe('body/position is unknown')
  expect((await erasing.send('GET', '/api/a/x?at=1')).json.item).toEqual({ id: 'x', secret: 1 })
  await erasing.close()
})

it.each(['if-match', 'if-none-match'])(
  'rejects %s where a change would ignore it',
  async (name) => {
    const changed = await startLedgerNode()
    await changed.send('POST', '/api/a')
    await changed.send('POST', '/api/a', { id: 'x', secret: 1 })
    await changed.send('POST', '/api/a/x', { secret: 2 })
    await changed.send('POST', '/api/config/indexes', { db: 'a', path: 'secret' })
    const list = { entries: [{ method: 'delete_item', db: 'a', id: 'x' }] }
    for (const [method, path, body] of [
      ['POST', '/api/a/x/erase', undefined],
      ['DELETE', '/api/a', undefined],
      ['POST', '/api/a', { id: 'y' }],
      ['POST', '/api/ledgers', list],
      ['POST', '/api/config/indexes', { db: 'a', path: 'n' }],
      ['DELETE', '/api/config/indexes?db=a&path=secret', undefined],
      ['POST', '/api/config/erasures', { db: 'a', ids: ['x'] }],
      ['POST', '/api/config/peers', { serverid: 1, vkey: 'x', url: 'http://127.0.0.1:1' }],
      ['DELETE', '/api/config/peers/1', undefined],
      ['POST', '/api/config/tokens', { subject: 's', scopes: ['db:a:read'], life_seconds: 9 }],
      ['DELETE', '/api/config/tokens/x', undefined],
    ] as const) {
      const { status, json } = await changed.send(method, path, body, { [name]: '"99.0"' })
      expect([path, status, json.code]).toEqual([path, 400, 'REQUEST_INVALID'])
      expect(json.message).toMatch(/^nothing was changed: /)
    }
    expect((await changed.send('GET', '/api/a/x?at=1')).json.item).toEqual({ id: 'x', secret: 1 })
    expect((await changed.send('GET', '/api/a')).json.items).toEqual(['x'])
    const { indexes } = (await changed.send('GET', '/api/config/indexes')).json
    expect(indexes).toMatchObject([{ db: 'a', path: 'secret' }])
    await changed.close()
  },
)
