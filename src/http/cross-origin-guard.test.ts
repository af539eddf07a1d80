import { expect, it } from 'vitest'
import { crossOriginRefusal } from './cross-origin-guard.ts'

const codeFor = (headers: { host?: string; site?: string; origin?: string }, url = '/api/dbs') => {
  const checked = { hosts: 1, host: 'nas:4126', site: undefined, origin: undefined, ...headers }
  const all = { ...checked, encoding: undefined, length: undefined, transfer: undefined }
  return crossOriginRefusal(url, all, new Set(['ledger.example']))?.code ?? null
}

it.each([
  [{ origin: 'http://nas:4126' }, null],
  // A proxy may terminate TLS, so the origin may be https.
  [{ origin: 'https://nas:4126' }, null],
  [{ origin: 'https://ledger.example', host: 'ledger.example' }, null],
  [{ origin: 'https://nas' }, 'CROSS_ORIGIN'],
  [{ origin: 'ftp://nas:4126' }, 'CROSS_ORIGIN'],
  [{ origin: 'https://other.example' }, 'CROSS_ORIGIN'],
  [{ site: 'same-origin' }, null],
  [{ site: 'none' }, null],
  [{ site: 'same-site' }, 'CROSS_ORIGIN'],
  [{ host: 'other.example' }, 'HOST_UNKNOWN'],
  [{ host: 'ledger.example:80' }, null],
  [{ host: 'ledger.example.' }, 'HOST_UNKNOWN'],
])('a request with %j gets a refusal with the code %s (null: no refusal)', (headers, code) => {
  expect(codeFor(headers)).toBe(code)
})

it('lets other sites read /doc and paths below it, but no other path', () => {
  const otherSite = { origin: 'https://other.example', host: 'other.example' }
  const paths = ['/doc', '/doc/json', '/doc?x', '/docs', '/api/doc', 'http://nas/doc']
  expect(paths.map((path) => codeFor(otherSite, path))).toEqual([
    ...[null, null, null, 'HOST_UNKNOWN', 'HOST_UNKNOWN', 'TARGET_NOT_PATH'],
  ])
})
