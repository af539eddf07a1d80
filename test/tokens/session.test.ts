import { expect, it } from 'vitest'
import { issueApiToken, openTokens } from '../../src/tokens/index.ts'
import { basic } from '../support/basic.ts'
import { CREDENTIALS, HandClock, startLedgerNode } from '../support/ledger-node.ts'

const { name } = CREDENTIALS
const RIGHT = basic(name, CREDENTIALS.password)

it('exchanges the credentials of the dashboard for a token with every scope, valid for 15 minutes', async () => {
  const clock = new HandClock()
  const tokens = await openTokens({ clock, folder: null, secret: null })
  const lines: string[] = []
  const node = await startLedgerNode({ clock, tokens, log: (line) => lines.push(line) })
  const { status, json, headers } = await node.send('POST', '/session', undefined, RIGHT)
  expect([status, headers.get('cache-control')]).toEqual([200, 'no-store'])
  expect(json).toEqual({
    status: true,
    token: expect.any(String),
    expires_at: clock.time + 900_000,
  })
  expect(lines.join('')).toContain('session token issued')
  expect(lines.join('')).not.toContain(json.token.split('.')[2])

  const token = { 'x-access-token': json.token }
  expect((await node.send('POST', '/api/fruit', undefined, token)).status).toBe(200)
  const { serverid } = (await node.send('GET', '/api/serverid', undefined, token)).json
  const chain = `/api/ledgers?serverid=${serverid}`
  expect((await node.send('GET', chain, undefined, token)).status).toBe(200)
  clock.time += 900_000
  expect((await node.send('GET', chain, undefined, token)).status).toBe(401)
  await node.close()
})

it('issues no token to pages of other sites', async () => {
  const clock = new HandClock()
  const tokens = await openTokens({ clock, folder: null, secret: null })
  const node = await startLedgerNode({ clock, tokens })
  for (const sent of [{ origin: 'https://other.example' }, { 'sec-fetch-site': 'cross-site' }]) {
    const reply = await node.send('POST', '/session', undefined, { ...RIGHT, ...sent })
    expect([reply.status, reply.json.code]).toEqual([403, 'CROSS_ORIGIN'])
  }
  const { status } = await node.send('POST', '/session')
  expect(status).toBe(401)
  await node.close()
})

it('counts wrong passwords for /session and for the dashboard together when it throttles clients', async () => {
  const clock = new HandClock()
  const tokens = await openTokens({ clock, folder: null, secret: null })
  const node = await startLedgerNode({ clock, tokens })
  for (let failure = 0; failure < 20; failure += 1) {
    const [method, path] = failure % 2 === 0 ? ['POST', '/session'] : ['GET', '/']
    const reply = await node.send(method ?? '', path ?? '', undefined, basic(name, 'wrong'))
    expect(reply.status).toBe(401)
  }
  const throttled = await node.send('POST', '/session', undefined, RIGHT)
  expect([throttled.status, throttled.headers.get('retry-after')]).toEqual([429, '300'])
  clock.time += 300_000
  expect((await node.send('POST', '/session', undefined, RIGHT)).status).toBe(200)
  await node.close()
})

it('returns a null token if tokens are disabled', async () => {
  const node = await startLedgerNode()
  const { text } = await node.send('POST', '/session', undefined, RIGHT)
  expect(text).toBe('{"status":true,"token":null,"expires_at":null}')
  await node.close()
})

it('lists the tokens in use, revokes a token immediately, and reports the activity of the last 24 hours', async () => {
  const clock = new HandClock()
  const tokens = await openTokens({ clock, folder: null, secret: null })
  const node = await startLedgerNode({ clock, tokens })
  const { token } = (await node.send('POST', '/session', undefined, RIGHT)).json
  const admin = { 'x-access-token': token }
  const grant = { subject: 'reporting', scopes: ['db:fruit:admin'], lifeSeconds: 3_600 }
  const { token: other, jti } = await issueApiToken(tokens, grant)
  const mine = { 'x-access-token': other }
  expect((await node.send('POST', '/api/fruit', undefined, mine)).status).toBe(200)
  expect((await node.send('GET', '/api/config/tokens', undefined, mine)).status).toBe(403)
  clock.time += 1_000
  const { json } = await node.send('GET', '/api/config/tokens', undefined, admin)
  expect(json).toMatchObject({ status: true, required: true, since: clock.time - 1_000 })
  expect(json.tokens).toMatchObject([{ subject: name, last_used: clock.time }, { jti }])
  expect(json.tokens[1]).toEqual({
    ...{ jti, subject: 'reporting', audience: 'daicho:api', scopes: ['db:fruit:admin'] },
    issued_at: clock.time - 1_000,
    expires_at: clock.time + 3_599_000,
    last_used: clock.time - 1_000,
    revoked: false,
  })
  const revoke = (id: string) => node.send('DELETE', `/api/config/tokens/${id}`, undefined, admin)
  expect((await revoke('nobody')).json).toMatchObject({ code: 'TOKEN_ID_MALFORMED' })
  expect((await revoke(jti)).text).toBe('{"status":true}')
  expect((await node.send('GET', '/api/fruit', undefined, mine)).status).toBe(401)
  const again = await node.send('GET', '/api/config/tokens', undefined, admin)
  expect(again.json.tokens[1]).toMatchObject({ jti, revoked: true })

  const activity = await node.send('GET', '/api/config/activity', undefined, admin)
  const minute = clock.time - 1_000 - ((clock.time - 1_000) % 60_000)
  expect(activity.json).toMatchObject({
    ...{
      status: true,
      since: clock.time - 1_000,
      now: clock.time,
      store_bytes: expect.any(Number),
    },
    minutes: [{ time: minute, blocks: 1, entries: 1, bytes: expect.any(Number) }],
  })
  await node.close()
})

it('creates a token with at most the rights and, except for sessions, the life of the token of the request', async () => {
  const clock = new HandClock()
  const tokens = await openTokens({ clock, folder: null, secret: null })
  const lines: string[] = []
  const node = await startLedgerNode({ clock, tokens, log: (line) => lines.push(line) })
  const session = (await node.send('POST', '/session', undefined, RIGHT)).json.token
  const create = async (token: string, scopes: readonly string[], life_seconds = 86_400) => {
    const body = { subject: 'reporting', scopes, life_seconds }
    const { status, json } = await node.send('POST', '/api/config/tokens', body, {
      authorization: `Bearer ${token}`,
    })
    return { status, ...json }
  }
  const scopes = ['db:fruit:read', 'db:veg:admin', 'node:admin']
  const created = await create(session, scopes, 3_600)
  expect(created.expires_at).toBe(clock.time + 3_600_000)
  expect(lines.join('')).toContain('token issued')
  expect(lines.join('')).not.toContain(created.token.split('.')[2])
  const { token } = created
  for (const allowed of [['db:fruit:read'], ['db:veg:read', 'db:veg:admin'], ['node:admin']]) {
    const child = await create(token, allowed)
    expect([child.status, child.expires_at]).toEqual([true, created.expires_at])
    expect(tokens.remembered()[0]).toMatchObject({ jti: child.jti, scope: allowed.join(' ') })
  }
  for (const more of [
    'db:fruit:write',
    'db:*:read',
    'db:%2A:read',
    'db:nuts:read',
    'ledger:read',
  ]) {
    const refused = await create(token, ['db:fruit:read', more])
    expect([more, refused.code]).toEqual([more, 'TOKEN_GRANT_EXCEEDS'])
  }
  const narrow = await create(session, ['db:fruit:admin'])
  expect((await create(narrow.token, ['db:fruit:read'])).code).toBe('SCOPE_MISSING')
  expect((await create(session, ['fruit'])).code).toBe('SCOPE_UNKNOWN')
  expect((await create(session, ['db:*:read'], 367 * 86_400)).code).toBe('REQUEST_INVALID')
  await node.close()
})

it('creates, lists and revokes no tokens if tokens are disabled', async () => {
  const node = await startLedgerNode()
  expect((await node.send('GET', '/api/config/tokens')).json).toEqual({
    ...{ status: true, required: false, since: null, tokens: [] },
  })
  const body = { subject: 'x', scopes: ['db:*:read'], life_seconds: 60 }
  for (const [method, path, sent] of [
    ['DELETE', '/api/config/tokens/x', undefined],
    ['POST', '/api/config/tokens', body],
  ] as const) {
    const { status, json } = await node.send(method, path, sent)
    expect([status, json.code]).toEqual([409, 'TOKENS_DISABLED'])
  }
  await node.close()
})

it('serves the page to everyone if it offers a sign-in, and guards everything else as before', async () => {
  const clock = new HandClock()
  const tokens = await openTokens({ clock, folder: null, secret: null })
  const endpoint = new URL('https://idp.example/oauth')
  const found = {
    issuer: 'https://idp.example',
    endpoints: { authorization: endpoint, token: endpoint },
  }
  let offer: typeof found | null = found
  const signIn = { clientId: 'dashboard', parameters: 'audience=x', find: () => offer }
  const node = await startLedgerNode({ clock, tokens, signIn })
  const cross = { 'sec-fetch-site': 'cross-site' }
  const policy = async () => {
    const page = await node.send('GET', '/?code=c&state=s', undefined, cross)
    expect(page.status).toBe(200)
    return /connect-src ([^;]+);/.exec(page.headers.get('content-security-policy') ?? '')?.[1]
  }
  expect(await policy()).toBe("'self' https://idp.example")
  const { json } = await node.send('GET', '/session')
  expect([json.client_id, json.parameters]).toEqual(['dashboard', 'audience=x'])
  for (const [method, path] of [
    ['GET', '/session'],
    ['POST', '/session'],
    ['GET', '/api/dbs'],
  ] as const) {
    expect((await node.send(method, path, undefined, { ...RIGHT, ...cross })).status).toBe(403)
  }
  expect((await node.send('GET', '/api/dbs')).json.code).toBe('TOKEN_NEEDED')
  expect((await node.send('POST', '/session')).status).toBe(401)
  expect((await node.send('POST', '/session', undefined, RIGHT)).json.token).toMatch(/^eyJ/)
  offer = null
  expect(await policy()).toBe("'self'")
  expect((await node.send('GET', '/session')).json.code).toBe('ISSUER_UNAVAILABLE')
  await node.close()

  const plain = await startLedgerNode({ clock, tokens })
  expect((await plain.send('GET', '/')).status).toBe(401)
  expect((await plain.send('GET', '/', undefined, { ...RIGHT, ...cross })).status).toBe(403)
  expect((await plain.send('GET', '/session')).status).toBe(405)
  await plain.close()
})
