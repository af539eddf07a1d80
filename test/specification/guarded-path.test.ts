import { METHODS } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { basic } from '../support/basic.ts'
import { type Answer, type SamplesListener, startSamples } from '../support/samples-listener.ts'

const PAIRS = {
  one: { name: 'ada', password: 'pa:ss' },
  two: { name: 'bøb', password: 'søster' },
}
const REALM = 'Basic realm="daicho sample", charset="UTF-8"'

let samples: SamplesListener
beforeAll(async () => {
  samples = await startSamples({ pairs: PAIRS })
})
afterAll(() => samples.close())

const right = { headers: basic('ada', 'pa:ss') }

function expectRefused({ status, headers, text }: Answer, hint = '') {
  expect([hint, status, text]).toEqual([hint, 401, 'Authentication required.'])
  expect(headers['www-authenticate']).toBe(REALM)
  expect(headers['content-type']).toBe('text/plain; charset=utf-8')
  expect(headers['cache-control']).toBe('no-store')
}

function expectGranted({ status, headers, text }: Answer, hint = '') {
  expect([hint, status, text]).toEqual([hint, 200, '{"status":true}'])
  expect(headers['content-type']).toBe('application/json; charset=utf-8')
}

describe('What the service does (specification, part B)', () => {
  it('every path beginning with `/hello` requires HTTP Basic credentials', async () => {
    const paths = ['/hello', '/hello/', '/helloworld', '/hello/a/b', '/hello;x', '/hello.json']
    for (const path of [...paths, '/%68ello', '/h%65llo/x', '/hello%2Fx', '/hello%00']) {
      expectRefused(await samples.call('GET', `${path}?id=one`), path)
      expectGranted(await samples.call('GET', `${path}?id=one`, right), path)
    }
  })

  it('the accepted credentials depend on the query parameter `id`', async () => {
    expectRefused(await samples.call('GET', '/hello?id=two', right))
    const other = { headers: basic('bøb', 'søster') }
    expectGranted(await samples.call('GET', '/hello?id=two', other))
    expectRefused(await samples.call('GET', '/hello?id=one', other))
  })
})

describe('Resources and their fields (specification, part B)', () => {
  it('a table maps each allowed `id` value to one user name and password pair', async () => {
    for (const [id, { name, password }] of Object.entries(PAIRS)) {
      expectGranted(
        await samples.call('GET', `/hello?id=${id}`, { headers: basic(name, password) }),
      )
    }
  })
})

describe('Endpoints (specification, part B)', () => {
  it('GET `/hello` and any path that starts with `/hello`: {status: true}, application/json; charset=utf-8', async () => {
    expectGranted(await samples.call('GET', '/hello?id=one', right))
    expectGranted(await samples.call('GET', '/hello/anything?x=1&id=one', right))
  })

  it('every method requires credentials, and answers when the credentials are right', async () => {
    for (const method of METHODS.filter((name) => name !== 'CONNECT')) {
      const type = { 'content-type': 'application/json' }
      const without = await samples.call(method, '/hello?id=one', { headers: type })
      const granted = await samples.call(method, '/hello?id=one', {
        headers: { ...type, ...right.headers },
      })
      expect([method, without.status, granted.status]).toEqual([method, 401, 200])
    }
  })
})

describe('Authentication (specification, part B)', () => {
  it('HTTP Basic, realm is a fixed string', async () => {
    for (const path of ['/hello', '/hello?id=one', '/helloworld?id=none']) {
      expect((await samples.call('GET', path)).headers['www-authenticate']).toBe(REALM)
    }
  })

  it('when `id` is missing, unknown, or the credentials differ or are absent, the reply is 401', async () => {
    expectRefused(await samples.call('GET', '/hello', right), 'missing')
    expectRefused(await samples.call('GET', '/hello?id=', right), 'empty')
    expectRefused(await samples.call('GET', '/hello?id=three', right), 'unknown')
    expectRefused(await samples.call('GET', '/hello?ID=one', right), 'other case')
    expectRefused(await samples.call('GET', '/hello?id=one&id=one', right), 'duplicate')
    expectRefused(await samples.call('GET', '/hello?id[]=one', right), 'list')
    expectRefused(await samples.call('GET', '/hello?id=one'), 'absent')
    for (const [name, password] of [
      ['ada', 'pa:sS'],
      ['ada', 'pa'],
      ['ada', ''],
      ['Ada', 'pa:ss'],
      ['', 'pa:ss'],
      ['', ''],
      ['ada:pa', 'ss '],
    ] as const) {
      const answer = await samples.call('GET', '/hello?id=one', { headers: basic(name, password) })
      expectRefused(answer, `${name} ${password}`)
    }
  })

  it('paths that do not start with `/hello` are not checked', async () => {
    expect((await samples.call('GET', '/')).status).toBe(200)
    expect((await samples.call('GET', '/doc/json')).status).toBe(200)
    for (const path of ['/hell', '/HELLO', '/x/hello', '//hello', '/api/hello']) {
      const { status, headers } = await samples.call('GET', path)
      expect([path, status === 401, headers['www-authenticate']]).toEqual([path, false, undefined])
    }
  })

  it('a related sample filter applies to all URLs: 401 when the `authorization` header is absent or is 6 characters or shorter, else through', async () => {
    const filtered = await startSamples({ presenceFilter: true })
    try {
      for (const path of [
        '/',
        '/api',
        '/api/authenticate',
        '/doc',
        '/doc/json',
        '/nothing',
        '/hello',
      ]) {
        expectRefused(await filtered.call('GET', path), path)
        expectRefused(await filtered.call('GET', path, { headers: { authorization: 'Basic ' } }))
        expectRefused(await filtered.call('GET', path, { headers: { authorization: '123456' } }))
      }
      const headers = { authorization: '1234567' }
      expect((await filtered.call('GET', '/', { headers })).status).toBe(200)
      expect((await filtered.call('GET', '/api', { headers })).status).toBe(403)
      expect((await filtered.call('GET', '/nothing', { headers })).status).toBe(404)
      expectRefused(await filtered.call('GET', '/hello?id=demo', { headers }))
      expectGranted(
        await filtered.call('GET', '/hello?id=demo', { headers: basic('demo', 'demo') }),
      )
    } finally {
      await filtered.close()
    }
  })

  it('the filter for all URLs is off by default', async () => {
    expect((await samples.call('GET', '/')).status).toBe(200)
  })
})

describe('Errors (specification, part B)', () => {
  it('path under `/hello` without a valid `id` or without matching credentials: HTTP 401, header `WWW-Authenticate` set for Basic with a realm, plain-text body `Authentication required.`', async () => {
    expectRefused(await samples.call('GET', '/hello'))
    expectRefused(await samples.call('POST', '/hello/x?id=one', { body: 'x'.repeat(100) }))
  })
})
