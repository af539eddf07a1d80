import { afterAll, beforeAll, expect, it } from 'vitest'
import { basic } from '../support/basic.ts'
import { type SamplesListener, startSamples } from '../support/samples-listener.ts'

let samples: SamplesListener
beforeAll(async () => {
  samples = await startSamples()
})
afterAll(() => samples.close())

interface Operation {
  readonly security?: readonly Record<string, unknown>[]
}

async function operations(): Promise<[string, string, Operation][]> {
  const page = await samples.call('GET', '/doc/json')
  const document: { paths: Record<string, Record<string, Operation>> } = JSON.parse(page.text)
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, string, Operation] => [
      method.toUpperCase(),
      path,
      operation,
    ]),
  )
}

it('lists exactly the documented operations', async () => {
  expect((await operations()).map(([method, path]) => `${method} ${path}`).toSorted()).toEqual([
    'GET /',
    'GET /api',
    'GET /api/users',
    'GET /hello',
    'POST /api/authenticate',
  ])
})

it('documents the authentication of every operation correctly', async () => {
  const token = await samples.login()
  const granted: Record<string, Record<string, string>> = {
    bearer: { authorization: `Bearer ${token}` },
    basicPerId: basic('demo', 'demo'),
  }
  for (const [method, path, { security }] of await operations()) {
    if (security === undefined) throw new Error(`${method} ${path} declares no security`)
    const without = await samples.call(method, path)
    expect([path, without.status < 300]).toEqual([path, security.length === 0])
    for (const scheme of security.flatMap((one) => Object.keys(one))) {
      const headers = granted[scheme] ?? {}
      const { status, text } = await samples.call(method, `${path}?id=demo`, { headers })
      expect([path, scheme, status]).toEqual([path, scheme, 200])
      expect(text).not.toContain('"success":false')
    }
  }
})

it('loads nothing from other hosts', async () => {
  const page = await samples.call('GET', '/doc')
  const html = (await samples.call('GET', page.headers.location ?? '/doc/')).text
  expect(html).toContain('<title>daicho samples</title>')
  expect(html).not.toMatch(/(?:src|href)="https?:/)
  const policy = String(page.headers['content-security-policy'])
  expect(policy).toContain("default-src 'none'")
  // The policy allows no other host. It does not upgrade requests to https, because then the page would stay blank
  // over http.
  expect(policy).not.toMatch(/https?:|swagger\.io|upgrade-insecure-requests|unsafe/)
})
