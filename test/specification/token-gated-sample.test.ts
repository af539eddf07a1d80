import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { form, json, type SamplesListener, startSamples } from '../support/samples-listener.ts'

const USERS = [
  { name: 'ada', password: 'correct horse', admin: true },
  { name: 'bob', password: 'battery staple' },
]
const NO_TOKEN = '{"success":false,"message":"No token provided."}'
const INVALID = '{"success":false,"message":"Invalid token."}'
const FAILED = '{"success":false,"message":"Authentication failed."}'
const WELCOME = '{"message":"Welcome to the sample API."}'
const JSON_TYPE = 'application/json; charset=utf-8'
const DAY_MS = 24 * 60 * 60 * 1000

let samples: SamplesListener
let token: string
beforeAll(async () => {
  samples = await startSamples({ users: USERS })
  token = await samples.login('ada', 'correct horse')
})
afterAll(() => samples.close())

describe('What the service does (specification, part T)', () => {
  it('an open authenticate operation exchanges a user name and password for a time-limited token', async () => {
    const answer = await samples.call(
      'POST',
      '/api/authenticate',
      json({ name: 'ada', password: 'correct horse' }),
    )
    expect(answer.status).toBe(200)
    expect(answer.headers['content-type']).toBe(JSON_TYPE)
    expect(answer.headers['cache-control']).toBe('no-store')
    expect(JSON.parse(answer.text)).toEqual({
      success: true,
      message: 'Valid for 24 hours.',
      token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]{43}$/),
    })
  })

  it('the other API operations run only when a valid token accompanies the request', async () => {
    for (const path of ['/api', '/api/users']) {
      const headers = { 'x-access-token': token }
      expect((await samples.call('GET', path)).status).toBe(403)
      expect((await samples.call('GET', path, { headers })).text).not.toContain('success')
    }
  })
})

describe('Resources and their fields (specification, part T)', () => {
  it('Token: signed token, valid for 24 hours, created from the user record', async () => {
    const claims = decodeJwt(token)
    expect(claims).toEqual({
      iss: 'daicho',
      aud: 'daicho:samples',
      sub: 'ada',
      name: 'ada',
      admin: true,
      iat: samples.clock.nowMs / 1000,
      exp: samples.clock.nowMs / 1000 + 86_400,
      jti: expect.stringMatching(/^[0-9a-f-]{36}$/),
      bound: expect.stringMatching(/^[\w-]{43}$/),
    })
  })

  it('Authenticate response: token (string, present only on success)', async () => {
    const answer = await samples.call('POST', '/api/authenticate', json({ name: 'ada' }))
    expect(Object.keys(JSON.parse(answer.text))).toEqual(['success', 'message'])
  })
})

describe('States and transitions of a token (specification, part T)', () => {
  it('no token, POST /api/authenticate, name and password match a user: token issued, success true', async () => {
    const answer = await samples.call(
      'POST',
      '/api/authenticate',
      json({ name: 'bob', password: 'battery staple' }),
    )
    expect(JSON.parse(answer.text).success).toBe(true)
  })

  it('no token, POST /api/authenticate, no match: no token, success false', async () => {
    const answer = await samples.call(
      'POST',
      '/api/authenticate',
      json({ name: 'bob', password: 'correct horse' }),
    )
    expect(answer.text).toBe(FAILED)
  })

  it('token issued, 24 hours pass: token expired, verification then fails with the invalid-token reply', async () => {
    const own = await startSamples()
    try {
      const headers = { 'x-access-token': await own.login() }
      own.clock.nowMs += DAY_MS - 1000
      expect((await own.call('GET', '/api', { headers })).text).toBe(WELCOME)
      own.clock.nowMs += 1000
      const expired = await own.call('GET', '/api', { headers })
      expect([expired.status, expired.text]).toEqual([200, INVALID])
    } finally {
      await own.close()
    }
  })
})

describe('Endpoints (specification, part T)', () => {
  it('a token can be supplied in body field `token`', async () => {
    expect((await samples.call('GET', '/api', json({ token }))).text).toBe(WELCOME)
    expect((await samples.call('GET', '/api', form({ token }))).text).toBe(WELCOME)
  })

  it('a token can be supplied in query parameter `token`', async () => {
    expect((await samples.call('GET', `/api?token=${token}`)).text).toBe(WELCOME)
  })

  it('a token can be supplied in header `x-access-token`', async () => {
    const answer = await samples.call('GET', '/api', { headers: { 'X-Access-Token': token } })
    expect(answer.text).toBe(WELCOME)
  })

  it('the body takes precedence over the query, and the query over the header; empty values are skipped', async () => {
    const header = { 'x-access-token': token }
    const get = async (path: string, body: object, headers: Record<string, string>) =>
      (
        await samples.call('GET', path, {
          ...json(body),
          headers: { ...json({}).headers, ...headers },
        })
      ).text
    expect(await get(`/api?token=${token}`, { token: 'x' }, header)).toBe(INVALID)
    expect(await get('/api?token=x', { token }, { 'x-access-token': 'x' })).toBe(WELCOME)
    expect(await get('/api?token=x', {}, header)).toBe(INVALID)
    expect(await get(`/api?token=${token}`, {}, { 'x-access-token': 'x' })).toBe(WELCOME)
    expect(await get('/api?token=', { token: '' }, header)).toBe(WELCOME)
    expect(await get('/api', { token: null }, { authorization: `Bearer ${token}` })).toBe(WELCOME)
    expect(await get('/api?token=', { token: '' }, { 'x-access-token': '' })).toBe(NO_TOKEN)
  })

  it('the service also accepts URL-encoded form bodies and JSON bodies', async () => {
    const fields = { name: 'bob', password: 'battery staple' }
    for (const body of [json(fields), form(fields)]) {
      const answer = await samples.call('POST', '/api/authenticate', body)
      expect(JSON.parse(answer.text).success).toBe(true)
    }
  })

  it('GET / needs no token and is plain text that names the API location (`/api`)', async () => {
    const answer = await samples.call('GET', '/')
    expect(answer.status).toBe(200)
    expect(answer.headers['content-type']).toBe('text/plain; charset=utf-8')
    expect(answer.text).toBe('The API is at /api\n')
  })

  it('GET /api with a token: {message: string}', async () => {
    const answer = await samples.call('GET', '/api', { headers: { 'x-access-token': token } })
    expect([answer.status, answer.headers['content-type']]).toEqual([200, JSON_TYPE])
    expect(answer.text).toBe(WELCOME)
    expect((await samples.call('GET', `/api/?token=${token}`)).text).toBe(WELCOME)
  })

  it('GET /api/users with a token: array of user records {name, password, admin}', async () => {
    const answer = await samples.call('GET', '/api/users', { headers: { 'x-access-token': token } })
    expect(answer.status).toBe(200)
    expect(answer.text).toBe(
      '[{"name":"ada","password":"********","admin":true},' +
        '{"name":"bob","password":"********","admin":false}]',
    )
  })
})

describe('Authentication (specification, part T)', () => {
  it('`GET /` and `POST /api/authenticate` need no token', async () => {
    expect((await samples.call('GET', '/')).status).toBe(200)
    expect((await samples.call('POST', '/api/authenticate')).text).toBe(FAILED)
  })

  it('all other paths under `/api` need a token that verifies against the signing secret', async () => {
    const paths = ['/api', '/api/', '/api/users', '/api/users/1', '/api/nothing', '/api/%75sers']
    for (const path of [...paths, '/%61pi/users', '/api//users', '/api?x=1']) {
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']) {
        const answer = await samples.call(method, path)
        expect([method, path, answer.status, answer.text]).toEqual([method, path, 403, NO_TOKEN])
      }
    }
    expect((await samples.call('HEAD', '/api/users')).status).toBe(403)
    expect((await samples.call('GET', '/api/authenticate')).text).toBe(NO_TOKEN)
  })

  it('an unknown path with a valid token returns 404 in the format of a failure', async () => {
    const headers = { 'x-access-token': token }
    for (const [path, status] of [
      ['/api/nothing', 404],
      ['/api/authenticate', 405],
      ['/api/users/1', 404],
    ] as const) {
      const answer = await samples.call('GET', path, { headers })
      expect(answer.status).toBe(status)
      expect(JSON.parse(answer.text)).toEqual({ success: false, message: expect.any(String) })
    }
  })
})

describe('Errors (specification, part T)', () => {
  it('POST /api/authenticate with no matching user: HTTP 200, Authentication failed.', async () => {
    const bodies = [
      json({ name: 'nobody', password: 'x' }),
      json({ name: 'ada', password: '' }),
      json({ name: 'ada' }),
      json({ password: 'correct horse' }),
      json({ name: ['ada'], password: ['correct horse'] }),
      json({ name: 1, password: true }),
      json({ name: 'ada', password: { length: 1 } }),
      json({ name: 'x'.repeat(10_000), password: 'x' }),
      json({ name: 'ada', password: 'x'.repeat(10_000) }),
      json({ name: '', password: '' }),
      json(['ada', 'correct horse']),
      json(null),
      json('ada'),
      form({ name: 'ada' }),
      {
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: 'name=ada&name=ada',
      },
      { headers: { 'content-type': 'application/json' } },
      { headers: { 'content-type': 'text/plain' }, body: 'ada' },
    ]
    for (const [index, body] of bodies.entries()) {
      const answer = await samples.call('POST', '/api/authenticate', {
        ...body,
        // Each request has a different address, so that the throttle does not block it.
        localAddress: `127.0.1.${index + 1}`,
      })
      expect([index, answer.status, answer.text]).toEqual([index, 200, FAILED])
      expect(answer.headers['content-type']).toBe(JSON_TYPE)
    }
  })

  it('protected path, no token in body, query or header: HTTP 403, No token provided.', async () => {
    for (const call of [{}, json({}), json(null), json([token]), form({ tokens: token })]) {
      const answer = await samples.call('GET', '/api/users', call)
      expect([answer.status, answer.text]).toEqual([403, NO_TOKEN])
      expect(answer.headers['content-type']).toBe(JSON_TYPE)
    }
  })

  it('protected path, token fails verification: HTTP 200, Invalid token.', async () => {
    const [head, body, signature] = token.split('.')
    const bad = ['x', 'a.b.c', `${head}.${body}.`, `${head}.${body}.${signature}x`, `${token}.x`]
    for (const text of bad) {
      const answer = await samples.call('GET', '/api/users', {
        headers: { 'x-access-token': text },
      })
      expect([answer.status, answer.text]).toEqual([200, INVALID])
      expect(answer.headers['content-type']).toBe(JSON_TYPE)
    }
  })
})

describe('Limits (specification, part T)', () => {
  it('token validity 24 hours: exp is iat + 86400', () => {
    const { iat, exp } = decodeJwt(token)
    expect(Number(exp) - Number(iat)).toBe(86_400)
  })
})
