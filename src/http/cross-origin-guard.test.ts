import { expect, it } from 'vitest'
import { crossOriginRefusal } from './cross-origin-guard.ts'

const codeFor = (
  headers: { host?: string | undefined; site?: string; origin?: string },
  target = { url: '/api/dbs', openToAllSites: false },
) => {
  const checked = { hosts: 1, host: 'nas:4126', site: undefined, origin: undefined, ...headers }
  const all = {
    ...checked,
    encoding: undefined,
    length: undefined,
    transfer: undefined,
    upgrade: undefined,
    type: undefined,
  }
  return crossOriginRefusal(target, all, new Set(['ledger.example']))?.code ?? null
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
  [{ host: undefined }, null],
  [{ host: undefined, origin: 'http://undefined' }, 'CROSS_ORIGIN'],
])('a request with %j gets a refusal with the code %s (null: no refusal)', (headers, code) => {
  expect(codeFor(headers)).toBe(code)
})

it.each([
  ['/doc', true, null],
  ['/doc', false, 'HOST_UNKNOWN'],
  ['http://nas/doc', true, 'TARGET_NOT_PATH'],
])(
  'another site that requests %s of a route with openToAllSites %s gets the code %s',
  (url, openToAllSites, code) => {
    const otherSite = { origin: 'https://other.example', host: 'other.example' }
    expect(codeFor(otherSite, { url, openToAllSites })).toBe(code)
  },
)
