import { expect, it } from 'vitest'
import { crossOriginRefusal } from './cross-origin-guard.ts'

const ask = (headers: { host?: string; site?: string; origin?: string }, url = '/api/dbs') => {
  const given = { hosts: 1, host: 'nas:4126', site: undefined, origin: undefined, ...headers }
  const form = { ...given, encoding: undefined, length: undefined, transfer: undefined }
  return crossOriginRefusal(url, form, new Set(['ledger.example']))?.code ?? null
}

it.each([
  // The second as behind a proxy that speaks TLS.
  [{ origin: 'http://nas:4126' }, null],
  [{ origin: 'https://nas:4126' }, null],
  [{ origin: 'https://ledger.example', host: 'ledger.example' }, null],
  [{ origin: 'https://nas' }, 'CROSS_ORIGIN'],
  [{ origin: 'ftp://nas:4126' }, 'CROSS_ORIGIN'],
  [{ origin: 'https://elsewhere.example' }, 'CROSS_ORIGIN'],
  [{ site: 'same-origin' }, null],
  [{ site: 'none' }, null],
  [{ site: 'same-site' }, 'CROSS_ORIGIN'],
  [{ host: 'elsewhere.example' }, 'HOST_UNKNOWN'],
  [{ host: 'ledger.example:80' }, null],
  [{ host: 'ledger.example.' }, 'HOST_UNKNOWN'],
])('a request with %j is judged: %s', (headers, code) => {
  expect(ask(headers)).toBe(code)
})

it('the documentation may be read from anywhere, and nothing that only begins like it', () => {
  const elsewhere = { origin: 'https://elsewhere.example', host: 'elsewhere.example' }
  const paths = ['/doc', '/doc/json', '/doc?x', '/docs', '/api/doc', 'http://nas/doc']
  expect(paths.map((path) => ask(elsewhere, path))).toEqual([
    ...[null, null, null, 'HOST_UNKNOWN', 'HOST_UNKNOWN', 'TARGET_NOT_PATH'],
  ])
})
