import { expect, it } from 'vitest'
import { openTokens } from '../../src/tokens/index.ts'
import { basic } from '../support/basic.ts'
import { CREDENTIALS, HandClock, startLedgerNode } from '../support/ledger-node.ts'

const { name } = CREDENTIALS
const RIGHT = basic(name, CREDENTIALS.password)

it("exchanges the dashboard's credentials for a token with every scope for 15 minutes", async () => {
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

it('throttles wrong passwords for /session and for the dashboard together', async () => {
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
