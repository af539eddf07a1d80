import { connect } from 'node:net'
import { beforeAll, expect, it } from 'vitest'
import { type LedgerNode, startLedgerNode } from '../../test/support/ledger-node.ts'

const APP = 'https://app.example'
let node: LedgerNode
beforeAll(async () => {
  node = await startLedgerNode({ allowedOrigins: [APP, 'http://localhost:5173'] })
  await node.send('POST', '/api/fruit', undefined, { origin: APP })
  await node.send('POST', '/api/fruit', { id: 'plum' })
  await node.send('PUT', '/api/fruit/plum/attachments/a', 'bytes', { 'content-type': 'text/plain' })
  return () => node.close()
})

/** Sends a request of a page on `origin`; returns the status, and the headers about origins. */
async function page(method: string, path: string, origin: string, headers = {}) {
  const reply = await node.send(method, path, undefined, {
    ...{ origin, 'sec-fetch-site': 'cross-site' },
    ...headers,
  })
  const about = [...reply.headers].filter(([name]) => /^(access-control-|vary$)/.test(name))
  return { status: reply.status, ...Object.fromEntries(about) }
}
const EXPOSED = {
  vary: 'origin',
  'access-control-allow-origin': APP,
  'access-control-expose-headers': expect.stringMatching(
    /^etag, ledger-position, ledger-height, query-plan,.*, x-rates-stale,/,
  ),
}

it('lets a page of an allowed origin read replies, errors and their headers', async () => {
  expect(await page('GET', '/api/dbs', APP)).toEqual({ status: 200, ...EXPOSED })
  expect(await page('GET', '/api/fruit/none', APP)).toEqual({ status: 404, ...EXPOSED })
  expect(await page('POST', '/api/fruit', APP)).toEqual({ status: 409, ...EXPOSED })
  expect(await page('GET', '/nowhere', APP)).toEqual({ status: 404, ...EXPOSED })
  const attachment = '/api/fruit/plum/attachments/a'
  expect(await page('GET', attachment, APP)).toEqual({ status: 200, ...EXPOSED })
  const vary = { vary: 'authorization, x-access-token, origin' }
  const vkey = `/api/ledgers/${node.service.serverId}/checkpoint`
  expect(await page('GET', vkey, APP)).toEqual({ status: 200, ...EXPOSED, ...vary })
})

it('answers a preflight request of an allowed origin, although no route matches and no credentials are sent', async () => {
  const asking = {
    'access-control-request-method': 'PATCH',
    'access-control-request-headers': 'authorization,if-match',
  }
  expect(await page('OPTIONS', '/api/fruit/plum', APP, asking)).toEqual({
    status: 204,
    ...EXPOSED,
    'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
    'access-control-allow-headers': expect.stringMatching(
      /^authorization, .*, if-match, .*idempotency-key/,
    ),
    'access-control-max-age': '600',
  })
})

it('refuses other origins; the reply has no header that allows access', async () => {
  const asking = { 'access-control-request-method': 'POST' }
  for (const origin of [
    'https://evil.example',
    'null',
    `${APP}:444`,
    `${APP}.evil.example`,
    'http://app.example',
  ]) {
    const refused = { status: 403, vary: 'origin' }
    expect([origin, await page('GET', '/api/dbs', origin)]).toEqual([origin, refused])
    expect([origin, await page('OPTIONS', '/api/fruit', origin, asking)]).toEqual([origin, refused])
  }
})

it('refuses an allowed origin if the Host is not trusted', async () => {
  const { port, hostname } = new URL(node.url)
  const socket = connect(Number(port), hostname)
  socket.write(
    `GET /api/dbs HTTP/1.1\r\nHost: evil.example\r\nOrigin: ${APP}\r\nConnection: close\r\n\r\n`,
  )
  let text = ''
  for await (const bytes of socket) text += bytes
  expect(text).toMatch(/^HTTP\/1\.1 421 /)
})

it('sends no CORS headers if no origin is allowed', async () => {
  const closed = await startLedgerNode()
  const { status, headers } = await closed.send('GET', '/api/dbs', undefined, { origin: APP })
  expect([status, headers.get('vary'), headers.get('access-control-allow-origin')]).toEqual([
    403,
    null,
    null,
  ])
  await closed.close()
})
