// Access checks of a node that requires tokens. The OpenAPI document of a real node gives the routes, so every route
// is tested. A node with a route without a scope does not start.
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { buildApp, type HttpApp, statusFalseReply } from '../../src/http/index.ts'
import {
  issueApiToken,
  openTokens,
  registerAccessChecks,
  type TokenService,
} from '../../src/tokens/index.ts'
import { HandClock, type LedgerNode, type Reply, startLedgerNode } from '../support/ledger-node.ts'
import { until } from '../support/until.ts'

const SCOPE =
  /^(?:public|token|ledger:read|node:(?:metrics|sync|admin)|db:\{db\}:(?:read|write|admin))$/
const EVERYTHING = ['db:*:admin', 'ledger:read', 'node:metrics', 'node:sync', 'node:admin']

const clock = new HandClock()
const lines: string[] = []
let node: LedgerNode
let tokens: TokenService
let routes: { method: string; path: string; scope: string }[]

const tokenFor = async (scopes: readonly string[], subject = 'tester', lifeSeconds = 3_600) =>
  (await issueApiToken(tokens, { subject, scopes, lifeSeconds })).token

/**
 * Sends a request with `headers` to `path`. POST, PUT and PATCH have a JSON body, which is not valid for
 * every path.
 */
async function call(method: string, path: string, headers: Record<string, string>) {
  const controller = new AbortController()
  const body = ['POST', 'PUT', 'PATCH'].includes(method) ? { body: '{"entries":[]}' } : {}
  const reply = await fetch(node.url + path, {
    method,
    headers: { ...(method === 'PUT' ? {} : { 'content-type': 'application/json' }), ...headers },
    signal: controller.signal,
    ...body,
  })
  // Ends the reply, because streams never end.
  if (reply.status === 200) {
    controller.abort()
    return { status: 200, json: null, headers: reply.headers }
  }
  const text = await reply.text()
  return {
    status: reply.status,
    json: text === '' ? null : JSON.parse(text),
    headers: reply.headers,
  }
}

beforeAll(async () => {
  tokens = await openTokens({ clock, folder: null, secret: null })
  node = await startLedgerNode({ clock, tokens, log: (line) => lines.push(line) })
  const { json } = await node.send('GET', '/doc/json')
  routes = Object.entries<Record<string, { 'x-scope'?: string }>>(json.paths).flatMap(
    ([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        method: method.toUpperCase(),
        path,
        scope: operation['x-scope'] ?? 'none',
      })),
  )
  const admin = { authorization: `Bearer ${await tokenFor(EVERYTHING)}` }
  await node.send('POST', '/api/fruit', undefined, admin)
  await node.send('POST', '/api/a%3Ab', undefined, admin)
})
afterAll(() => node.close())

/** Replaces the parameters in `path` by values. */
const filled = (path: string) => path.replace('{db}', 'fruit').replaceAll(/\{\w+\}/g, '1')

it('the OpenAPI document describes how to send a token, if tokens are required', async () => {
  const { paths, components } = (await node.send('GET', '/doc/json')).json
  expect(Object.keys(components.securitySchemes)).toEqual(['bearer'])
  expect(paths['/api/dbs'].get.security).toEqual([{ bearer: [] }])
  expect(paths['/healthz'].get.security).toBeUndefined()
  const open = await startLedgerNode()
  const { get } = (await open.send('GET', '/doc/json')).json.paths['/api/dbs']
  expect([get.security, get['x-scope']]).toEqual([undefined, 'token'])
  await open.close()
})

it('the OpenAPI document states the required scope of every route', () => {
  expect(routes.length).toBeGreaterThan(12)
  expect(routes.filter(({ scope }) => !SCOPE.test(scope))).toEqual([])
  const open = routes.filter(({ scope }) => scope === 'public').map(({ path }) => path)
  expect(open).toEqual(expect.arrayContaining(['/healthz', '/readyz']))
  expect(open.filter((path) => path.includes('{db}') || path === '/api/ledgers')).toEqual([])
})

it('lets no shared cache give the reply to a token to anybody else', async () => {
  const token = await tokenFor(EVERYTHING)
  const read = routes.filter(({ method, scope }) => method === 'GET' && scope !== 'public')
  for (const { path } of read) {
    const inHeader = await call('GET', filled(path), { 'x-access-token': token })
    const inQuery = await call('GET', `${filled(path)}?token=${token}`, {})
    for (const { headers } of [inHeader, inQuery]) {
      const isKept = /private|no-store|no-cache/.test(headers.get('cache-control') ?? '')
      expect([path, isKept || headers.get('vary')?.includes('x-access-token')]).toEqual([
        path,
        true,
      ])
    }
  }
})

it('rejects requests to every route without a token, with an invalid token or without the scope', async () => {
  const expired = await tokenFor(EVERYTHING, 'tester', 1)
  const otherAudience = await tokens.issue({
    audience: 'daicho:samples',
    subject: 'tester',
    lifeSeconds: 60,
    claims: { scope: EVERYTHING.join(' ') },
  })
  clock.time += 1_000
  const good = await tokenFor(EVERYTHING)
  const bad: [string, Record<string, string>][] = [
    ['TOKEN_NEEDED', {}],
    ['TOKEN_NEEDED', { authorization: 'Basic a2VlcGVyOmJyYXNzOiBrZXk=' }],
    ['TOKEN_INVALID', { 'x-access-token': 'nonsense' }],
    ['TOKEN_INVALID', { authorization: `Bearer ${expired}` }],
    ['TOKEN_INVALID', { authorization: `Bearer ${otherAudience.token}` }],
    ['TOKEN_INVALID', { authorization: `Bearer ${good.slice(0, -1)}` }],
    ['TOKEN_INVALID', { authorization: `Bearer ${good}A` }],
  ]
  for (const { method, path, scope } of routes) {
    const target = filled(path)
    for (const [code, headers] of bad) {
      const reply = await call(method, target, headers)
      if (scope === 'public') {
        expect([method, path, reply.json?.code]).not.toEqual([method, path, code])
        continue
      }
      expect([method, path, reply.status, reply.json?.code]).toEqual([method, path, 401, code])
      expect(reply.json).toEqual({ status: false, code, message: expect.any(String) })
      const error = code === 'TOKEN_INVALID' ? ', error="invalid_token"' : ''
      expect(reply.headers.get('www-authenticate')).toBe(`Bearer realm="daicho"${error}`)
    }
    if (scope === 'public' || scope === 'token') continue
    const needed = scope.replace('{db}', 'fruit')
    const wrong = await call(method, target, {
      authorization: `Bearer ${await tokenFor(allBut(needed))}`,
    })
    expect([method, path, wrong.status, wrong.json]).toEqual([
      method,
      path,
      403,
      { status: false, code: 'SCOPE_MISSING', message: `the token lacks the scope ${needed}` },
    ])
    expect(wrong.headers.get('www-authenticate')).toBe(
      `Bearer realm="daicho", error="insufficient_scope", scope="${needed}"`,
    )
  }
})

/**
 * Returns scopes that do not include `needed`. For a database scope, these are all other kinds of scopes, a scope
 * for another database, and the level below `needed`.
 */
function allBut(needed: string): string[] {
  const below = { read: [], write: ['db:*:read'], admin: ['db:*:write'] }[
    needed.split(':')[2] ?? ''
  ]
  if (below === undefined) return EVERYTHING.filter((scope) => scope !== needed)
  return [...EVERYTHING.slice(1), 'db:other:admin', ...below]
}

it('accepts for each route a token that has only the scope of this route', async () => {
  for (const { method, path, scope } of routes) {
    if (scope === 'public') continue
    const granted = scope === 'token' ? 'db:another:read' : scope.replace('{db}', 'fruit')
    const reply = await call(method, filled(path), {
      authorization: `Bearer ${await tokenFor([granted])}`,
    })
    expect([method, path, [401, 403].includes(reply.status)]).toEqual([method, path, false])
    // Creates the database again, because the route may have deleted it.
    const all = { authorization: `Bearer ${await tokenFor(EVERYTHING)}` }
    await node.send('POST', '/api/fruit', undefined, all)
  }
})

it('requires the same scope for HEAD as for GET', async () => {
  const reply = await fetch(`${node.url}/api/fruit`, { method: 'HEAD' })
  expect(reply.status).toBe(401)
})

describe('a token', () => {
  it.each<[string, (token: string) => [string, Record<string, string>]]>([
    ['the query parameter token', (token) => [`?token=${token}`, {}]],
    ['the header x-access-token', (token) => ['', { 'x-access-token': token }]],
    ['the header Authorization: Bearer', (token) => ['', { authorization: `Bearer ${token}` }]],
    ['a query parameter with an escaped name', (token) => [`?%74oken=${token}`, {}]],
    [
      'a header if the query parameter is empty',
      (token) => ['?token=', { 'x-access-token': token }],
    ],
  ])('a token is accepted from %s', async (_location, addToken) => {
    const [query, headers] = addToken(await tokenFor(['db:fruit:read']))
    const { status } = await node.send('GET', `/api/fruit${query}`, undefined, headers)
    expect(status).toBe(200)
  })

  it('a token is taken from Authorization before x-access-token, and from x-access-token before the query', async () => {
    const token = await tokenFor(['db:fruit:read'])
    const authorization = `Bearer ${token}`
    const send = async (query: string, headers: Record<string, string>) =>
      (await node.send('GET', `/api/fruit${query}`, undefined, headers)).status
    expect(await send('?token=x', { authorization, 'x-access-token': 'x' })).toBe(200)
    expect(await send('?token=x', { 'x-access-token': token })).toBe(200)
    // An invalid token is not skipped.
    expect(await send('', { authorization: 'Bearer x', 'x-access-token': token })).toBe(401)
    expect(await send(`?token=${token}`, { 'x-access-token': 'x' })).toBe(401)
  })

  it('a token is rejected if it is in the query twice, even if both are the same', async () => {
    const token = await tokenFor(['db:fruit:read'])
    for (const query of [`?token=${token}&token=${token}`, '?token=&token=']) {
      const { status } = await node.send('GET', `/api/fruit${query}`)
      expect([query, status]).toEqual([query, 401])
    }
  })

  it('a token is rejected by the first request after its expiry or revocation', async () => {
    const { token, jti } = await issueApiToken(tokens, {
      subject: 'tester',
      scopes: ['db:fruit:read'],
      lifeSeconds: 60,
    })
    const short = await tokenFor(['db:fruit:read'], 'tester', 10)
    const read = async (text: string) =>
      (await node.send('GET', '/api/fruit', undefined, { 'x-access-token': text })).status
    expect([await read(token), await read(short)]).toEqual([200, 200])
    clock.time += 10_000
    expect([await read(token), await read(short)]).toEqual([200, 401])
    await tokens.revoke(jti)
    expect(await read(token)).toBe(401)
  })
})

/** Builds an app with access checks and with the routes that `mount` adds. */
const start = (mount: (app: HttpApp) => void, required: TokenService | null = null) =>
  buildApp(
    {
      name: 'sample',
      limits: { bodyBytesMax: 1, requestTimeoutMs: 1_000 },
      sameOriginOnly: false,
      statusOf: {},
      refusalReply: statusFalseReply,
      register: async (app) => {
        registerAccessChecks(app, { tokens: required, signed: async () => {} })
        mount(app)
      },
    },
    { logger: pino({ level: 'silent' }), publicHosts: new Set() },
  )

it('lets no shared cache give the reply to a signed request to anybody else', async () => {
  const app = await start((app) => {
    app.get('/tile', { config: { scope: 'ledger:read', signed: true } }, (_request, reply) =>
      reply.header('cache-control', 'max-age=9, immutable').send('tile'),
    )
  }, tokens)
  const signed = await app.inject({ url: '/tile', headers: { 'signature-input': 's=()' } })
  const caching = signed.headers['cache-control']
  expect([signed.body, caching]).toEqual(['tile', 'private, max-age=9, immutable'])
  const authorization = `Bearer ${await tokenFor(EVERYTHING)}`
  const other = await app.inject({ url: '/tile', headers: { authorization } })
  expect(other.headers['cache-control']).toBe('max-age=9, immutable')
  await app.close()
})

it('closes a stream when its token expires or is revoked', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  try {
    const app = await start((app) => {
      const route = { config: { scope: 'token', lasting: true } } as const
      app.get('/stream', route, async (_request, reply) => {
        reply.hijack()
        reply.raw.writeHead(200).write('open')
      })
    }, tokens)
    const url = await app.listen({ host: '127.0.0.1', port: 0 })
    const revoked = await issueApiToken(tokens, {
      subject: 'tester',
      scopes: ['ledger:read'],
      lifeSeconds: 3_600,
    })
    const open = async (token: string) => {
      const { body } = await fetch(`${url}/stream`, { headers: { 'x-access-token': token } })
      const reader = body?.getReader()
      await reader?.read()
      let ended = false
      const end = reader?.read().then(
        () => {
          ended = true
        },
        () => {
          ended = true
        },
      )
      return { end, hasEnded: () => ended, cancel: () => reader?.cancel() }
    }
    const expiring = await open(await tokenFor(['ledger:read'], 'tester', 60))
    const other = await open(revoked.token)
    const lasting = await open(await tokenFor(['ledger:read']))
    clock.time += 59_000
    await vi.advanceTimersByTimeAsync(59_000)
    expect([expiring.hasEnded(), other.hasEnded()]).toEqual([false, false])
    clock.time += 1_000
    await tokens.revoke(revoked.jti)
    await vi.advanceTimersByTimeAsync(11_000)
    await Promise.all([expiring.end, other.end])
    expect(lasting.hasEnded()).toBe(false)
    await lasting.cancel()
    await app.close()
  } finally {
    vi.useRealTimers()
  }
})

it('does not recheck the token of a client that disconnected while the token was verified', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  try {
    const handled = Promise.withResolvers<void>()
    const app = await start((app) => {
      const route = { config: { scope: 'token', lasting: true } } as const
      app.get('/stream', route, async (_request, reply) => {
        reply.hijack()
        handled.resolve()
      })
    }, tokens)
    const url = await app.listen({ host: '127.0.0.1', port: 0 })
    const timers = vi.getTimerCount()
    const client = new AbortController()
    const closed = Promise.withResolvers<void>()
    app.server.once('request', (_request, response) => response.once('close', closed.resolve))
    const verify = tokens.verify.bind(tokens)
    vi.spyOn(tokens, 'verify').mockImplementationOnce(async (...args) => {
      client.abort()
      await closed.promise
      return verify(...args)
    })
    const headers = { 'x-access-token': await tokenFor(['ledger:read']) }
    await expect(fetch(`${url}/stream`, { headers, signal: client.signal })).rejects.toThrow()
    await handled.promise
    expect(vi.getTimerCount()).toBe(timers)
    await app.close()
  } finally {
    vi.useRealTimers()
  }
})

it.each([
  ['/api/long?docs=true', 'db:long:read'],
  ['/api/ledgers?serverid={serverid}', 'ledger:read'],
  ['/api/long/a/attachments/file', 'db:long:read'],
])('aborts the reply to GET %s when its token is revoked', async (path, scope) => {
  const admin = { authorization: `Bearer ${await tokenFor(EVERYTHING)}` }
  await node.send('POST', '/api/long', undefined, admin)
  const text = 'x'.repeat(4_000_000)
  for (const id of ['a', 'b', 'c']) await node.send('POST', '/api/long', { id, text }, admin)
  const bytes = { ...admin, 'content-type': 'text/plain' }
  const body = new Uint8Array(24_000_000)
  await fetch(`${node.url}/api/long/a/attachments/file`, { method: 'PUT', headers: bytes, body })
  const revoked = await issueApiToken(tokens, {
    subject: 'tester',
    scopes: [scope],
    lifeSeconds: 3_600,
  })
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  try {
    const { serverid } = (await node.send('GET', '/api/serverid', undefined, admin)).json
    const reply = await fetch(node.url + path.replace('{serverid}', serverid), {
      headers: { 'x-access-token': revoked.token },
    })
    expect(reply.status).toBe(200)
    await tokens.revoke(revoked.jti)
    await vi.advanceTimersByTimeAsync(10_000)
    await expect(reply.bytes()).rejects.toThrow('terminated')
  } finally {
    vi.useRealTimers()
  }
})

it('aborts an upload when its token is revoked, and stores nothing', async () => {
  const admin = { authorization: `Bearer ${await tokenFor(EVERYTHING)}` }
  await node.send('POST', '/api/uploaded', undefined, admin)
  await node.send('POST', '/api/uploaded', { id: 'a' }, admin)
  const grant = { subject: 'tester', scopes: ['db:uploaded:write'], lifeSeconds: 3_600 }
  const revoked = await issueApiToken(tokens, grant)
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  try {
    let controller: ReadableStreamDefaultController | undefined
    const body = new ReadableStream({
      start: (started) => {
        controller = started
        started.enqueue(new Uint8Array(70_000))
      },
    })
    const headers = { 'x-access-token': revoked.token }
    const path = `${node.url}/api/uploaded/a/attachments`
    const upload = fetch(`${path}/file`, { method: 'PUT', headers, body, duplex: 'half' })
    const ended = upload.then(({ status }) => status).catch(() => 'aborted')
    await until('the upload began', () => vi.getTimerCount() >= 1)
    await tokens.revoke(revoked.jti)
    await vi.advanceTimersByTimeAsync(10_000)
    await fetch(path, { headers: admin })
    controller?.close()
    expect(await ended).toBe('aborted')
    const { attachments } = (
      await node.send('GET', '/api/uploaded/a/attachments', undefined, admin)
    ).json
    expect(attachments).toEqual([])
  } finally {
    vi.useRealTimers()
  }
})

describe('databases', () => {
  const as = async (scopes: string[]) => {
    const headers = { 'x-access-token': await tokenFor(scopes) }
    return (method: string, path: string, body?: unknown): Promise<Reply> =>
      node.send(method, path, body, headers)
  }

  it('databases are listed if the token can read them', async () => {
    const dbs = async (scopes: string[]) => (await (await as(scopes))('GET', '/api/dbs')).json.dbs
    expect(await dbs(['db:*:read'])).toEqual(expect.arrayContaining(['a:b', 'fruit']))
    expect(await dbs(['db:fruit:write'])).toEqual(['fruit'])
    expect(await dbs(['db:a:b:read'])).toEqual(['a:b'])
    expect(await dbs(['db:none:read'])).toEqual([])
    expect(await dbs(['ledger:read'])).toEqual([])
  })

  it('databases that one token can read are not shown to another token from a cache of a former state', async () => {
    const send = async (path: string, scope: string, tag: string) =>
      node.send('GET', path, undefined, {
        ...{ 'if-none-match': tag, 'x-access-token': await tokenFor([scope]) },
      })
    for (const [path, tag] of [
      ['/api/dbs?at=1', '"1"'],
      ['/api/config/diff?from=0&to=1', '"0-1"'],
    ] as const) {
      expect((await send(path, 'db:*:read', tag)).status).toBe(304)
      const { status, headers } = await send(path, 'db:fruit:read', tag)
      expect([path, status, headers.get('etag')]).toEqual([path, 200, null])
    }
  })

  it('databases are created with the admin scope, and items with the write scope', async () => {
    const writer = await as(['db:nuts:write'])
    expect((await writer('POST', '/api/nuts')).status).toBe(403)
    expect((await (await as(['db:nuts:admin']))('POST', '/api/nuts')).text).toBe('{"status":true}')
    expect((await writer('POST', '/api/nuts', { id: 'hazel' })).status).toBe(200)
    expect((await writer('DELETE', '/api/nuts')).status).toBe(403)
  })

  it('databases return the same error for a token without the scope, whether the database exists or not', async () => {
    const stranger = await as(['db:nuts:admin'])
    for (const method of ['GET', 'DELETE']) {
      const there = await stranger(method, '/api/fruit')
      const absent = await stranger(method, '/api/froot')
      expect([there.status, there.json.code]).toEqual([absent.status, absent.json.code])
    }
  })

  it('databases can be changed in one request if the token may change each of them', async () => {
    const caller = await as(['db:fruit:write', 'db:a:b:admin'])
    const both = [
      { method: 'create_item', db: 'fruit', item: { id: 'together' } },
      { method: 'create_item', db: 'a:b', item: { id: 'together' } },
    ]
    expect((await caller('POST', '/api/ledgers', { entries: both })).status).toBe(200)
    const refused = [
      [...both, { method: 'delete_item', db: 'nuts', id: 'hazel' }],
      [
        { method: 'delete_db', db: 'fruit' },
        { method: 'create_db', db: 'fruit' },
      ],
    ]
    for (const entries of refused) {
      const reply = await caller('POST', '/api/ledgers', { entries })
      expect([reply.status, reply.json.code]).toEqual([403, 'SCOPE_MISSING'])
    }
    const entries = [
      { method: 'delete_db', db: 'a:b' },
      { method: 'create_db', db: 'a:b' },
    ]
    expect((await caller('POST', '/api/ledgers', { entries })).status).toBe(200)
  })
})

it('logs no tokens and no secrets', async () => {
  const token = await tokenFor(['db:fruit:read'])
  const [head = '', payload = '', signature = ''] = token.split('.')
  for (const path of [
    `/api/fruit?token=${token}`,
    `/api/none?%74oken=${token}`,
    `/%zz?token=${token}`,
  ]) {
    await node.send('GET', path)
    await node.send('GET', path, undefined, { 'x-access-token': token })
  }
  expect(lines.length).toBeGreaterThan(10)
  const log = lines.join('')
  for (const part of [payload, signature, `${head}.`]) expect(log).not.toContain(part)
})

describe('a listener with access checks', () => {
  it('does not start if a route has no scope or an invalid scope', async () => {
    const handler = async () => ({})
    await expect(start((app) => app.get('/x', handler))).rejects.toThrow('GET /x declares no scope')
    const wrong = { config: { scope: 'db:{db}:read' } } as const
    await expect(start((app) => app.get('/x', wrong, handler))).rejects.toThrow(
      '/x declares an invalid scope',
    )
    await expect(start((app) => app.get('/docs', handler))).rejects.toThrow('declares no scope')
    const unknown = { config: { scope: 'db:{db}:own' as 'public' } }
    await expect(start((app) => app.get('/:db', unknown, handler))).rejects.toThrow(
      'declares an invalid scope',
    )
    const app = await start((app) => app.get('/x', { config: { scope: 'public' } }, handler))
    await app.close()
  })
})
