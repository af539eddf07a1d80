// Requests that are invalid apart from their bodies: hosts, origins, targets, names and syntax. Each reply has the
// error format of the ledger, and nothing changes.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { CREDENTIALS, startLedgerNode } from '../support/ledger-node.ts'
import { exchange, type RawReply } from '../support/raw-socket.ts'
import { expectRefusal, type RefusingNode, startRefusingNode } from '../support/refusals.ts'

let node: RefusingNode
let host: string
const lines: string[] = []
beforeAll(async () => {
  const log = (line: string) => lines.push(line)
  node = await startRefusingNode({ publicHosts: ['ledger.example'], log })
  host = new URL(node.url).host
})
afterEach(() => node.expectUnmoved())
afterAll(() => node.close())

/** Sends a request with these lines, and returns the only reply. */
async function ask(line: string, headers: readonly string[], body = ''): Promise<RawReply> {
  const text = `${[line, ...headers, 'Connection: close'].join('\r\n')}\r\n\r\n${body}`
  const method = line.split(' ')[0] ?? ''
  const { replies, rest } = await exchange(node.url, [text], { methods: [method] })
  expect(replies.length).toBe(1)
  expect(rest).toBe('')
  return replies[0] ?? { status: 0, headers: new Map(), body: '' }
}

const REQUESTS = [
  'GET /api/dbs',
  'GET /api/a',
  'GET /api/a/x',
  'GET /',
  'GET /healthz',
  'HEAD /api/dbs',
  'POST /api/stolen',
  'POST /api/a/x',
  'PATCH /api/a/x',
  'PUT /api/a/x',
  'DELETE /api/a/x',
  'DELETE /api/a',
  'OPTIONS /api/a',
  'POST /nowhere',
]
const methodOf = (request: string) => request.split(' ')[0] ?? ''

describe('Host', () => {
  it('Host is required exactly once: otherwise every method gets 400, even on paths that are open to other sites', async () => {
    for (const request of [...REQUESTS, 'GET /doc', 'GET /doc/json']) {
      for (const headers of [
        [`Host: ${host}`, `Host: ${host}`],
        [`Host: ${host}`, 'Host: elsewhere.example'],
        ['Host: elsewhere.example', `hOST: ${host}`],
        [],
      ]) {
        const reply = await ask(`${request} HTTP/1.1`, headers)
        expectRefusal(reply, 400, 'HOST_NOT_ONE', methodOf(request))
      }
    }
  })

  it('Host must not be an unknown host (DNS rebinding): every method gets 421', async () => {
    for (const name of [
      'elsewhere.example',
      `elsewhere.example:${new URL(node.url).port}`,
      '127.0.0.1.elsewhere.example',
      'localhost.elsewhere.example',
      '127.0.0.1.',
      'ledger.example.',
      'x.ledger.example',
      'user@localhost',
      'local host',
      '[::1].elsewhere.example',
      '',
    ]) {
      for (const request of REQUESTS) {
        const reply = await ask(`${request} HTTP/1.1`, [`Host: ${name}`])
        expectRefusal(reply, 421, 'HOST_UNKNOWN', methodOf(request))
      }
    }
  })

  it('Host can be the name of the node, a loopback name, a single label or a configured name', async () => {
    for (const name of [
      'localhost',
      'x.localhost',
      '127.0.0.1',
      '[::1]:4126',
      'nas',
      'LEDGER.example:80',
    ]) {
      expect((await ask('GET /api/dbs HTTP/1.1', [`Host: ${name}`])).status).toBe(200)
    }
  })

  it('Host may be missing in HTTP/1.0, as in health checks of load balancers, but not for a page', async () => {
    expect((await ask('GET /readyz HTTP/1.0', [])).status).toBe(200)
    expectRefusal(await ask('GET /readyz HTTP/1.0', ['Origin: http://nas']), 403, 'CROSS_ORIGIN')
  })
})

describe('requests of other sites', () => {
  it.each([
    'Origin: https://elsewhere.example',
    'oRIGIN: https://elsewhere.example',
    'SEC-fetch-SITE: cross-site',
    'Origin: null',
    'Origin: http://localhost',
    'Origin: file://',
    'Origin:',
    'Sec-Fetch-Site: cross-site',
    'Sec-Fetch-Site: same-site',
    'Sec-Fetch-Site: same-origin, cross-site',
    'Sec-Fetch-Site:',
  ])('with %s get 403 for every method', async (header) => {
    for (const request of REQUESTS) {
      const reply = await ask(`${request} HTTP/1.1`, [`Host: ${host}`, header])
      expectRefusal(reply, 403, 'CROSS_ORIGIN', methodOf(request))
      expect([...reply.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual(
        [],
      )
    }
  })

  it('requests of other sites get 403 if one of the headers, or one of several headers with the same name, indicates another site', async () => {
    for (const headers of [
      [`Origin: http://${host}`, 'Sec-Fetch-Site: cross-site'],
      ['Origin: https://elsewhere.example', 'Sec-Fetch-Site: same-origin'],
      [`Origin: http://${host}`, 'Origin: https://elsewhere.example'],
      ['Sec-Fetch-Site: none', 'Sec-Fetch-Site: cross-site'],
    ]) {
      const reply = await ask('POST /api/stolen HTTP/1.1', [`Host: ${host}`, ...headers])
      expectRefusal(reply, 403, 'CROSS_ORIGIN')
    }
  })

  it('requests of other sites are accepted only by GET and HEAD of the files of /doc, without an upgrade', async () => {
    for (const target of ['/docs', '/doc%2f', '/document', '//doc', '/api/doc', '/DOC', '/doc/x']) {
      const reply = await ask(`GET ${target} HTTP/1.1`, ['Host: elsewhere.example'])
      expectRefusal(reply, 421, 'HOST_UNKNOWN')
    }
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      const reply = await ask(`${method} /doc HTTP/1.1`, ['Host: elsewhere.example'])
      expectRefusal(reply, 421, 'HOST_UNKNOWN')
    }
    for (const target of ['/doc', '/doc/', '/doc?x', '/doc/json', '/doc/yaml']) {
      const reply = await ask(`GET ${target} HTTP/1.1`, ['Host: elsewhere.example'])
      expect([target, reply.status]).toEqual([target, 200])
    }
    for (const target of [
      '/doc/../api/dbs',
      '/doc/%2e%2e/api/dbs',
      '/doc/..%2fapi/dbs',
      '/doc?/api/dbs',
    ]) {
      const reply = await ask(`GET ${target} HTTP/1.1`, ['Host: elsewhere.example'])
      expect(reply.body).not.toContain('"dbs":[')
    }
  })
})

describe('request targets and methods', () => {
  it('returns 404 for a path with an empty part, and never means the path without it', async () => {
    for (const line of [
      ...['GET /api/a/', 'POST /api/a/', 'DELETE /api/a/', 'PATCH /api/a/', 'GET /api//x'],
      ...['GET /api/a/x/attachments/', 'GET /api/a//history'],
    ]) {
      const reply = await ask(`${line} HTTP/1.1`, [`Host: ${host}`])
      expect([line, reply.status]).toEqual([line, 404])
      expectRefusal(reply, 404, 'PATH_UNKNOWN')
    }
  })

  it('returns 400 for ?at= on a path that has no past', async () => {
    for (const path of ['/api/a/x/history', '/api/serverid', '/api/ledgers']) {
      const reply = await ask(`GET ${path}?at=1 HTTP/1.1`, [`Host: ${host}`])
      expectRefusal(reply, 400, 'REQUEST_INVALID')
    }
    expect((await ask('GET /api/a/x?at=1 HTTP/1.1', [`Host: ${host}`])).status).toBe(200)
  })

  it('returns 400 for an absolute-form target, as sent to a proxy, with any host', async () => {
    for (const target of [
      'http://elsewhere.example/api/dbs',
      `http://${host}/api/dbs`,
      'https://elsewhere.example/doc',
      'http://elsewhere.example',
    ]) {
      for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS']) {
        expectRefusal(
          await ask(`${method} ${target} HTTP/1.1`, [`Host: ${host}`]),
          400,
          'TARGET_NOT_PATH',
        )
      }
    }
    expectRefusal(await ask(`CONNECT ${host} HTTP/1.1`, [`Host: ${host}`]), 400, 'TARGET_NOT_PATH')
    expectRefusal(await ask('OPTIONS * HTTP/1.1', [`Host: ${host}`]), 404, 'PATH_UNKNOWN')
  })

  it('returns 405 with Allow for an unsupported method with any body', async () => {
    for (const [request, allow] of [
      ['PUT /api/dbs', 'GET, HEAD'],
      ['PUT /api/a', 'DELETE, GET, HEAD, POST'],
      ['QUERY /api/a/x', 'DELETE, GET, HEAD, PATCH, POST'],
      ['POST /api/a/x/attachments/n', 'DELETE, GET, HEAD, PUT'],
      ['OPTIONS /api/a', 'DELETE, GET, HEAD, POST'],
      ['TRACE /', 'GET, HEAD'],
    ] as const) {
      for (const body of ['', 'null', '{']) {
        const headers = ['Content-Type: application/json', `Content-Length: ${body.length}`]
        const reply = await ask(`${request} HTTP/1.1`, [`Host: ${host}`, ...headers], body)
        expectRefusal(reply, 405, 'METHOD_NOT_ALLOWED')
        expect(reply.headers.get('allow')).toBe(allow)
      }
    }
  })

  it('returns 417 with an error body for an Expect other than 100-continue', async () => {
    const reply = await ask('POST /api/new HTTP/1.1', [`Host: ${host}`, 'Expect: a-miracle'])
    expectRefusal(reply, 417, 'EXPECTATION_UNKNOWN')
  })

  it('returns an error if the name of a database or item contains %2f, %2e%2e or control characters, or is too long', async () => {
    const invalid = [
      'a%2fb',
      'a%2Fb',
      '%2f',
      '%2e',
      '%2e%2e',
      '.',
      '..',
      'a%00b',
      'a%0ab',
      'a%7fb',
      'a%c2%85b',
    ]
    for (const name of [...invalid, 'n'.repeat(129), '%E5%8F%B0'.repeat(43)]) {
      for (const line of [`POST /api/${name}`, `DELETE /api/${name}`]) {
        expectRefusal(
          await ask(`${line} HTTP/1.1`, [`Host: ${host}`]),
          400,
          'DATABASE_NAME_INVALID',
        )
      }
      const read = await ask(`GET /api/${name} HTTP/1.1`, [`Host: ${host}`])
      expectRefusal(read, 404, 'DATABASE_NOT_FOUND')
    }
    for (const id of [...invalid, 'i'.repeat(257)]) {
      const reply = await ask(`DELETE /api/a/${id} HTTP/1.1`, [`Host: ${host}`])
      expectRefusal(reply, 400, 'ITEM_ID_INVALID')
      expect((await ask(`GET /api/a/${id} HTTP/1.1`, [`Host: ${host}`])).body).toBe(
        '{"status":false}',
      )
    }
    for (const id of ['', '.', '..', 'a/b', 'a\nb', 'i'.repeat(257), 1, null, true, {}, []]) {
      const reply = await node.send('POST', '/api/a', { id })
      expect([id, reply.status, reply.json.code]).toEqual([id, 400, 'ITEM_ID_INVALID'])
    }
  })

  it('rejects percent-encoding that is invalid, not UTF-8, or too long', async () => {
    for (const path of [
      '/api/%',
      '/api/%zz',
      '/api/%ff',
      '/api/%c0%af',
      '/api/a/%ed%a0%80',
      '/%',
    ]) {
      expectRefusal(await ask(`GET ${path} HTTP/1.1`, [`Host: ${host}`]), 400, 'URL_MALFORMED')
    }
    for (const path of [`/api/${'a'.repeat(1_025)}`, `/api/a/${'a'.repeat(8_000)}`]) {
      expectRefusal(await ask(`GET ${path} HTTP/1.1`, [`Host: ${host}`]), 414, 'URL_TOO_LONG')
    }
    const long = await ask(`GET /api/${'a'.repeat(20_000)} HTTP/1.1`, [`Host: ${host}`])
    expectRefusal(long, 431, 'HEADERS_TOO_LARGE')
  })

  it('decodes percent-encoded names once', async () => {
    for (const name of ['%2541', '%252e%252e', '%25252f']) {
      const reply = await node.send('GET', `/api/${name}`)
      expect(reply.json.message).toBe(`there is no database ${decodeURIComponent(name)}`)
    }
  })
})

describe('syntax', () => {
  it('returns 400 for bytes that are not HTTP, and closes the connection', async () => {
    for (const bytes of [
      'garbage\r\n\r\n',
      'GET\r\n\r\n',
      'GET api/dbs HTTP/1.1\r\n\r\n',
      'FOO /api/dbs HTTP/1.1\r\n\r\n',
      'GET /api/d\u0000bs HTTP/1.1\r\n\r\n',
      'GET /api/dbs HTTP/1.1\r\nno colon\r\n\r\n',
      'GET /api/dbs HTTP/1.1\r\nA : b\r\n\r\n',
      'GET /api/dbs HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n',
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
      '\u0016\u0003\u0001\u0002\u0000\u0001\u0000', // a TLS client
      '{"json":true}',
    ]) {
      const { replies, closed } = await exchange(node.url, [bytes])
      expect([bytes, replies.length, closed]).toEqual([bytes, 1, true])
      expect([bytes, replies[0]?.status]).toEqual([bytes, 400])
      expect(JSON.parse(replies[0]?.body ?? '').status).toBe(false)
    }
    const headers = `GET /api/dbs HTTP/1.1\r\nHost: ${host}\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`
    const { replies } = await exchange(node.url, [headers])
    expect(replies.map(({ status, body }) => [status, JSON.parse(body).code])).toEqual([
      [431, 'HEADERS_TOO_LARGE'],
    ])
  })

  it('answers a valid request before it rejects invalid bytes that follow', async () => {
    const good = `GET /api/a/x HTTP/1.1\r\nHost: ${host}\r\n\r\n`
    for (const pieces of [[`${good}${good}garbage\r\n\r\n`], [good, good, 'garb', 'age\r\n\r\n']]) {
      const { replies, rest } = await exchange(node.url, pieces)
      expect(replies.map(({ status }) => status)).toEqual([200, 200, 400])
      expect(rest).toBe('')
    }
  })

  it('acknowledges a stored change even if invalid bytes follow the request', async () => {
    const own = await startLedgerNode()
    const create = `POST /api/made HTTP/1.1\r\nHost: localhost\r\n\r\ngarbage\r\n\r\n`
    const { replies } = await exchange(own.url, [create])
    expect(replies.map(({ status }) => status)).toEqual([200, 400])
    expect((await own.send('GET', '/api/dbs')).json.dbs).toEqual(['made'])
    await own.close()
  })
})

describe('secrets', () => {
  it('secrets in the query or in Authorization never appear in a log line or an error body', async () => {
    const secret = 'TOKEN-THAT-NOBODY-SHALL-SEE'
    const before = lines.length
    const bodies: string[] = []
    for (const query of [
      `token=${secret}`,
      `%74oken=${secret}`,
      `x=1&TOKEN=${secret}`,
      `token=${secret}&token=${secret}`,
      secret,
    ]) {
      for (const request of [
        ...['GET /api/dbs', 'GET /nowhere', 'GET /api/none', 'GET /api/a/none', 'POST /api/config'],
        ...['GET /api/ledgers', 'GET /%', 'PUT /api/a', 'GET /', 'OPTIONS /api/a'],
      ]) {
        bodies.push((await ask(`${request}?${query} HTTP/1.1`, [`Host: ${host}`])).body)
        bodies.push((await ask(`${request}?${query} HTTP/1.1`, ['Host: elsewhere.example'])).body)
      }
      bodies.push((await ask(`GET /api/a?limit=x&${query} HTTP/1.1`, [`Host: ${host}`])).body)
    }
    const basic = Buffer.from(`${CREDENTIALS.name}:${secret}`).toString('base64')
    bodies.push(
      (await ask('GET / HTTP/1.1', [`Host: ${host}`, `Authorization: Basic ${basic}`])).body,
    )
    expect(bodies.join('\n')).not.toContain(secret)
    const logged = lines.slice(before).join('\n')
    expect(logged).toContain('/api/dbs')
    expect(logged).not.toContain(secret)
    expect(logged).not.toContain(basic)
    expect(logged).not.toContain(CREDENTIALS.password)
  })
})
