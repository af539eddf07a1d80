import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { basic } from '../support/basic.ts'
import { roundsOf } from '../support/rounds.ts'
import { json, type SamplesListener, startSamples } from '../support/samples-listener.ts'

const NO_TOKEN = '{"success":false,"message":"No token provided."}'
const INVALID = '{"success":false,"message":"Invalid token."}'
const REFUSED = 'Authentication required.'

let samples: SamplesListener
let token: string
beforeAll(async () => {
  samples = await startSamples()
  token = await samples.login()
})
afterAll(() => samples.close())

const get = (target: string, ...headers: string[]) =>
  samples.raw(
    [`GET ${target} HTTP/1.1`, 'Host: x', 'Connection: close', ...headers, '', ''].join('\r\n'),
  )
const statusOf = (reply: string) => Number(reply.slice(9, 12))
const bodyOf = (reply: string) => reply.slice(reply.indexOf('\r\n\r\n') + 4)

describe('a token that is not text, or was not issued by this service', () => {
  it('a foreign token is rejected as invalid in body, query and header, whether it is an array, an object, a number or 5 KB long', async () => {
    const values = [[token], { 0: token }, 1, true, 0, false, [], {}, 'x'.repeat(5_000)]
    for (const value of values) {
      const answer = await samples.call('GET', '/api/users', json({ token: value }))
      expect([value, answer.status, answer.text]).toEqual([value, 200, INVALID])
    }
    for (const query of [`token=${token}&token=${token}`, `token=${'x'.repeat(5_000)}`]) {
      const answer = await samples.call('GET', `/api/users?${query}`)
      expect([answer.status, answer.text]).toEqual([200, INVALID])
    }
    const twice = { 'x-access-token': [token, token] }
    expect((await samples.call('GET', '/api', { headers: twice })).text).toBe(INVALID)
  })

  it('a foreign token is rejected as invalid if its user was removed or has a new password', async () => {
    const { usersInFolder, addUser, removeUser, changePassword } = await import(
      '../../src/sample-api/index.ts'
    )
    const { hashPassword } = await import('../../src/tokens/index.ts')
    const own = await startSamples()
    try {
      const users = usersInFolder(own.folder)
      const eve = { name: 'eve', passwordHash: await hashPassword('first'), admin: false }
      await users.change((list) => addUser(list, eve))
      // The first configured user removes the preset user.
      await expect(own.login()).rejects.toThrow('Authentication failed.')
      const headers = { 'x-access-token': await own.login('eve', 'first') }
      expect((await own.call('GET', '/api', { headers })).text).toContain('Welcome')

      // In the same second, and even with the same password.
      const passwordHash = await hashPassword('first')
      await users.change((list) => changePassword(list, 'eve', passwordHash))
      expect((await own.call('GET', '/api', { headers })).text).toBe(INVALID)
      const again = { 'x-access-token': await own.login('eve', 'first') }
      expect((await own.call('GET', '/api', { headers: again })).text).toContain('Welcome')
      await users.change((list) => removeUser(list, 'eve'))
      expect((await own.call('GET', '/api', { headers: again })).text).toBe(INVALID)
    } finally {
      await own.close()
    }
  })

  it('a foreign token is rejected as invalid after a restart with another password in the file of users, but not with the same', async () => {
    const secret = 'a secret of at least thirty-two bytes'
    const users = (password: string) => [{ name: 'ann', password }]
    const before = await startSamples({ users: users('first'), secret })
    const token = await before.login('ann', 'first')
    await before.close()
    for (const [password, expected] of [
      ['first', 'Welcome'],
      ['second', INVALID],
    ] as const) {
      const after = await startSamples({ users: users(password), secret })
      const { text } = await after.call('GET', '/api', { headers: { 'x-access-token': token } })
      await after.close()
      expect(text).toContain(expected)
    }
  })

  it('a foreign token is rejected as invalid from the first request after its revocation', async () => {
    const mine = await samples.login()
    const headers = { 'x-access-token': mine }
    expect((await samples.call('GET', '/api', { headers })).text).toContain('Welcome')
    const { jti } = JSON.parse(Buffer.from(mine.split('.')[1] ?? '', 'base64url').toString())
    await samples.tokens.revoke(jti)
    expect((await samples.call('GET', '/api', { headers })).text).toBe(INVALID)
  })

  it('a foreign token is rejected as invalid if it was issued for another component', async () => {
    const { token: other } = await samples.tokens.issue({
      audience: 'daicho:api',
      subject: 'demo',
      lifeSeconds: 60,
    })
    expect((await samples.call('GET', `/api?token=${other}`)).text).toBe(INVALID)
  })
})

describe('a disguised path', () => {
  it('a disguised path that leads to a protected path needs a token', async () => {
    for (const target of ['/%61pi', '/api/%75sers', 'http://x/api/users', 'HTTP://x/api']) {
      const reply = await get(target)
      if (statusOf(reply) === 404) continue // The path is not a spelling of the protected path, and returns nothing.
      expect([target, statusOf(reply), bodyOf(reply)]).toEqual([target, 403, NO_TOKEN])
    }
    expect(statusOf(await get('http://x/api/users'))).toBe(403)
  })

  it.each([
    ...['/api%2fusers', '/api%2Fusers', '/api%252fusers', '/%61pi/users', '/%61%70%69%2f%75sers'],
    ...['//api/users', '/api//users', '///api', '/./api/users', '/api/./users', '/x/../api/users'],
    ...['/api/../api/users', '/%2e%2e/api', '/.%2e/api/users', '/API/users', '/Api', '/api/USERS'],
    ...[
      '/api/users/',
      '/api/',
      '/api\\users',
      '/%5capi%5cusers',
      '/api;x/users',
      '/api;/',
      '/api%3bx',
    ],
    ...['http://x/api%2fusers', 'http://x//api/users', 'http://x/API', '/api%2fauthenticate'],
    ...['//api/authenticate', '/API/authenticate', '/api/authenticate/', '/api%2fusers?token='],
  ])('%s without a token gets the reply of /api/users', async (target) => {
    for (const method of ['GET', 'POST', 'DELETE']) {
      const head = `${method} ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n`
      const reply = await samples.raw(`${head}Content-Length: 0\r\n\r\n`)
      expect([statusOf(reply), bodyOf(reply)]).toEqual([403, NO_TOKEN])
    }
    const wrong = await get(target, 'x-access-token: wrong')
    if (!target.includes('?')) expect([statusOf(wrong), bodyOf(wrong)]).toEqual([200, INVALID])
    // The disguised path returns the same as the normal path, or 404.
    const right = await get(target, `x-access-token: ${token}`)
    expect([200, 404]).toContain(statusOf(right))
  })

  it.each(['/apis', '/ap', '/x/api', '/api%2f..%2fdoc%2fnothing', '/.api', '/nothing?/api'])(
    '%s is a different path and needs no token',
    async (target) => {
      expect(statusOf(await get(target))).toBe(404)
    },
  )

  it.each([
    '//hello',
    '/HELLO',
    '/x/../hello',
    '/./hello',
    '/%2fhello',
    '/%5chello',
    '/x%2f..%2fhello',
  ])('%s reveals no content of /hello', async (target) => {
    for (const suffix of ['', '?id=demo', '/x?id=demo']) {
      expect(statusOf(await get(target + suffix))).toBe(404)
    }
  })

  it('a disguised path that leads to /hello needs credentials', async () => {
    const targets = ['/%68ello', '/hello;x', '/hello;id=demo', 'http://x/hello', 'http://x/%68ello']
    for (const target of [...targets, 'https://y/hello/z', '/hello?/../', '/hello/../doc']) {
      const reply = await get(target)
      expect([target, statusOf(reply), bodyOf(reply)]).toEqual([target, 401, REFUSED])
    }
    const authorization = `Authorization: ${basic('demo', 'demo').authorization}`
    for (const target of ['http://x/hello?id=demo', '/%68ello?id=demo', '/hello;x?id=demo']) {
      const reply = await get(target, authorization)
      expect([target, statusOf(reply), bodyOf(reply)]).toEqual([target, 200, '{"status":true}'])
    }
    expect(statusOf(await get('/hello;id=demo', authorization))).toBe(401)
  })
})

describe('malformed credentials', () => {
  const encoded = (bytes: string | Buffer) => Buffer.from(bytes).toString('base64')

  it('malformed credentials get 401', async () => {
    const right = encoded('demo:demo')
    for (const authorization of [
      '',
      'Basic',
      'Basic ',
      'Basic  ',
      'Basic =',
      'Basic !!!!',
      `Basic ${right}!`,
      `Basic ${right}====`,
      `Basic ${right.slice(0, -1)}`,
      `Basic ${right} ${right}`,
      `Bearer ${right}`,
      `Digest ${right}`,
      right,
      `Basic ${encoded('demodemo')}`,
      `Basic ${encoded('demo')}`,
      `Basic ${encoded(':')}`,
      `Basic ${encoded('demo:demo\0')}`,
      `Basic ${encoded('demo:demo\r\n')}`,
      `Basic ${encoded('demo:\u007fdemo')}`,
      `Basic ${encoded(Buffer.from([0xff, 0xfe, 0x3a, 0xff]))}`,
      `Basic ${encoded(`demo:${'x'.repeat(8_000)}`)}`,
    ]) {
      const answer = await samples.call('GET', '/hello?id=demo', { headers: { authorization } })
      expect([authorization, answer.status, answer.text]).toEqual([authorization, 401, REFUSED])
    }
  })

  it('malformed credentials get 401 if the id is the name of an Object member', async () => {
    const headers = basic('demo', 'demo')
    for (const id of [
      '__proto__',
      'constructor',
      'toString',
      'hasOwnProperty',
      '0',
      '%00',
      '%zz',
    ]) {
      const own = await startSamples()
      for (const query of [`id=${id}`, `${id}=demo`, `id[${id}]=demo`, `id=demo&id=${id}`]) {
        const { status, text } = await own.call('GET', `/hello?${query}`, { headers })
        expect([query, status, text]).toEqual([query, 401, REFUSED])
      }
      await own.close()
    }
  })

  it('credentials of one id do not reset the wrong passwords for another, and an address may send 100', async () => {
    const own = await startSamples({
      pairs: { mine: { name: 'm', password: 'm' }, other: { name: 'o', password: 'o' } },
    })
    const status = async (id: string, name: string, password: string) =>
      (await own.call('GET', `/hello?id=${id}`, { headers: basic(name, password) })).status
    for (let n = 0; n < 20; n += 1) {
      expect(await status('mine', 'm', 'm')).toBe(200)
      expect(await status('other', 'o', `${n}`)).toBe(401)
    }
    expect([await status('other', 'o', 'o'), await status('mine', 'm', 'm')]).toEqual([429, 200])
    for (let n = 0; n < 80; n += 1) expect(await status(`${n}`, 'o', 'o')).toBe(401)
    expect(await status('mine', 'm', 'm')).toBe(429)
    await own.close()
  })

  it('malformed credentials are decoded as Latin-1 if they are not UTF-8', async () => {
    const own = await startSamples({ pairs: { x: { name: 'bøb', password: 'é' } } })
    try {
      const authorization = `Basic ${encoded(Buffer.from('bøb:é', 'latin1'))}`
      const { status } = await own.call('GET', '/hello?id=x', { headers: { authorization } })
      expect(status).toBe(200)
    } finally {
      await own.close()
    }
  })
})

describe('an invalid request', () => {
  it('gets a 4xx in the error format of the component', async () => {
    const ended = { 'content-type': 'application/json' }
    const answers = {
      400: [
        await samples.call('POST', '/api/authenticate', { headers: ended, body: '{"name":' }),
        await samples.call('GET', '/api', { headers: ended, body: '\xff' }),
        await samples.call('GET', '/%zz'),
        await samples.call('GET', '/hello%zz'),
      ],
      404: [await samples.call('GET', '/nothing')],
      405: [await samples.call('TRACE', '/')],
      413: [await samples.call('POST', '/api/authenticate', { body: 'x'.repeat(65_537) })],
      415: [
        await samples.call('POST', '/api/authenticate', {
          headers: { ...ended, 'content-encoding': 'gzip' },
          body: 'x',
        }),
      ],
      422: [
        await samples.call('POST', '/api/authenticate', {
          headers: ended,
          body: '{"__proto__":{"name":"demo"},"password":"demo"}',
        }),
        await samples.call('POST', '/api/authenticate', {
          headers: ended,
          body: '['.repeat(65) + ']'.repeat(65),
        }),
        await samples.call('POST', '/api/authenticate', {
          headers: ended,
          body: '{"name":"demo","name":"x","password":"demo"}',
        }),
      ],
    }
    for (const [status, list] of Object.entries(answers)) {
      for (const answer of list) {
        expect([answer.status, answer.text]).toEqual([Number(status), answer.text])
        expect(JSON.parse(answer.text)).toEqual({ success: false, message: expect.any(String) })
      }
    }
    for (const text of [
      '\r\n\r\n\r\nx\r\n\r\n',
      'GET / HTTP/9.9\r\n\r\n',
      `GET /${'x'.repeat(20_000)}`,
    ]) {
      const reply = await samples.raw(text)
      expect(statusOf(reply)).toBeGreaterThanOrEqual(400)
      expect(statusOf(reply)).toBeLessThan(500)
      expect(JSON.parse(bodyOf(reply))).toMatchObject({ success: false })
    }
  })

  it('gets a status below 500 for any path, query, header and body', async () => {
    const word = fc.oneof(
      fc.constantFrom('api', 'users', 'hello', 'authenticate', 'token', 'id', '..', '%', '[]', ';'),
      fc.string({ maxLength: 8 }).map(encodeURIComponent2),
    )
    const target = fc
      .tuple(fc.array(word, { maxLength: 4 }), fc.array(fc.tuple(word, word), { maxLength: 4 }))
      .map(([path, query]) => `/${path.join('/')}?${query.map((pair) => pair.join('=')).join('&')}`)
    const call = fc.record({
      method: fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'QUERY', 'MERGE'),
      target,
      headers: fc.record(
        {
          'content-type': fc.constantFrom(
            'application/json',
            'application/x-www-form-urlencoded',
            'text/plain',
            'multipart/form-data',
            'x',
            '',
          ),
          authorization: fc.oneof(
            fc.string().map(encodeURIComponent2),
            fc.base64String().map((t) => `Basic ${t}`),
          ),
          'x-access-token': fc.string().map(encodeURIComponent2),
        },
        { requiredKeys: [] },
      ),
      body: fc.oneof(
        fc.constant(undefined),
        fc.string(),
        fc.jsonValue().map((value) => JSON.stringify(value)),
        fc.uint8Array().map((bytes) => Buffer.from(bytes)),
      ),
    })
    let calls = 0
    await fc.assert(
      fc.asyncProperty(call, async ({ method, target: path, headers, body }) => {
        calls += 1
        const answer = await samples.call(method, path, {
          headers,
          // Sends from many addresses, because login failures would block a single address.
          localAddress: `127.1.${calls >> 8}.${(calls % 254) + 1}`,
          ...(body === undefined ? {} : { body }),
        })
        expect(answer.status).toBeLessThan(500)
        if (answer.status < 400 || method === 'HEAD' || answer.status === 401) return
        expect(JSON.parse(answer.text)).toMatchObject({ success: false })
      }),
      { numRuns: roundsOf(500) },
    )
  })

  function encodeURIComponent2(text: string): string {
    return encodeURIComponent(text.toWellFormed())
  }
})
