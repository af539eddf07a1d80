import { expect, it } from 'vitest'
import { joinUrl, serverUrl } from './url.ts'

it.each([
  ['http://a.example', 'http://a.example'],
  ['HTTPS://A.example:443/', 'https://a.example'],
  ['http://a.example/ledger/staging//', 'http://a.example/ledger/staging'],
  ['http://[::1]:4126/x%2Fy', 'http://[::1]:4126/x%2Fy'],
])('a path is joined to the path of the server %s', (server, base) => {
  expect(serverUrl(server)).toBe(base)
  for (const path of ['/api/dbs', "/api/a%2Fb/c?x='1'&y=..", '/', '/?detail=1', '/api/...']) {
    expect(joinUrl(server, path).href).toBe(`${base}${path.replaceAll("'", '%27')}`)
  }
})

it.each(['', 'x', 'localhost:4126', '/api', 'file:///x', 'http://'])(
  '%j is not the URL of a server',
  (server) => {
    expect(() => joinUrl(server, '/api')).toThrow('is not the URL of a server')
  },
)

it.each([
  'http://secret@a.example',
  'http://a:secret@a.example',
  'http://a/?secret',
  'http://a/#secret',
  'postgres://a:secret@b/c',
])('the refusal of %j does not contain the secret', (server) => {
  expect(() => joinUrl(server, '/api')).toThrow(/^(?!.*secret).*the URL of a server/)
})

it.each([
  ...['/api/', '/api//x', '//api', '/api/?x'],
  ...[
    '',
    'api',
    '@b.example/api',
    '.b.example/',
    '/..',
    '/api/.',
    '/api/../config',
    '/api/%2e%2E/x',
  ],
  ...['/api/..?x=1', '/api\\..\\x', '/a b', '/api/\t../x', '/api#x', '/api?x#y'],
])('refuses the path %j, which would reach another address', (path) => {
  expect(() => joinUrl('http://a.example/staging', path)).toThrow('cannot be requested')
})
