// Denials are logged and counted on all components, never with a secret.
import { expect, it } from 'vitest'
import { Denials } from '../src/http/index.ts'
import { issueApiToken, openTokens } from '../src/tokens/index.ts'
import { basic } from './support/basic.ts'
import { gateway } from './support/gateway.ts'
import { HandClock, startLedgerNode } from './support/ledger-node.ts'
import { json, startSamples } from './support/samples-listener.ts'

const SECRET = 'hunter2'

it('the ledger logs and counts failed log-ins, refused tokens, missing scopes and throttled addresses', async () => {
  const clock = new HandClock()
  const lines: string[] = []
  const tokens = await openTokens({ clock, folder: null, secret: null })
  const node = await startLedgerNode({ clock, tokens, log: (line) => lines.push(line) })
  const grant = { subject: 'alice', scopes: ['db:fruit:read', 'node:metrics'], lifeSeconds: 60 }
  const { token } = await issueApiToken(tokens, grant)
  const bearer = { authorization: `Bearer ${token}` }
  await node.send('GET', '/api/dbs')
  await node.send('GET', '/')
  await node.send('GET', '/api/dbs', undefined, { 'x-access-token': SECRET })
  await node.send('GET', '/api/veg?token=', undefined, bearer)
  for (let n = 0; n < 22; n += 1) await node.send('GET', '/', undefined, basic('keeper', SECRET))
  const metrics = (await node.send('GET', '/metrics', undefined, bearer)).text
  const denials = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'access denied')
  expect(denials.map(({ reason, subject }) => [reason, subject]).slice(0, 3)).toEqual([
    ['TOKEN_INVALID', undefined],
    ['SCOPE_MISSING', 'alice'],
    ['LOGIN_FAILED', 'keeper'],
  ])
  expect(denials[1]).toMatchObject({ component: 'ledger', address: '127.0.0.1', path: '/api/veg' })
  for (const [reason, count] of [
    ['TOKEN_INVALID', 1],
    ['SCOPE_MISSING', 1],
    ['LOGIN_FAILED', 20],
    ['TOO_MANY_FAILURES', 2],
  ] as const) {
    expect(metrics).toContain(
      `daicho_denials_total{component="ledger",reason="${reason}"} ${count}\n`,
    )
  }
  const admin = { subject: 'keeper', scopes: ['node:admin'], lifeSeconds: 600 }
  const keeper = { authorization: `Bearer ${(await issueApiToken(tokens, admin)).token}` }
  const { json: recent, text } = await node.send('GET', '/api/config/denials', undefined, keeper)
  const counts = recent.denials.map(({ reason, subject, count }: Record<string, unknown>) => [
    ...[reason, subject, count],
  ])
  expect(counts).toEqual([
    ['TOO_MANY_FAILURES', null, 2],
    ['LOGIN_FAILED', 'keeper', 20],
    ['SCOPE_MISSING', 'alice', 1],
    ['TOKEN_INVALID', null, 1],
  ])
  expect(recent.denials[2]).toMatchObject({ address: '127.0.0.1', method: 'GET', path: '/api/veg' })
  expect(text).not.toContain(SECRET)
  clock.time += 60_000
  await node.send('GET', '/api/dbs', undefined, bearer)
  expect(JSON.parse(lines.findLast((line) => line.includes('access denied')) ?? '')).toMatchObject({
    ...{ reason: 'TOKEN_INVALID', subject: 'alice' },
  })
  expect(lines.join()).not.toContain(SECRET)
  expect(lines.join()).not.toContain(token)
  await node.close()
})

it('the samples log denials, and `/hello` throttles wrong passwords like the dashboard', async () => {
  const samples = await startSamples()
  const hello = (password: string) =>
    samples.call('GET', '/hello?id=demo', { headers: basic('demo', password) })
  for (let n = 0; n < 19; n += 1) expect((await hello(SECRET)).status).toBe(401)
  expect((await hello('demo')).status).toBe(200)
  for (let n = 0; n < 20; n += 1) expect((await hello(SECRET)).status).toBe(401)
  const throttled = await hello('demo')
  expect([throttled.status, Number(throttled.headers['retry-after'])]).toEqual([429, 300])
  samples.clock.nowMs += 300_000
  expect((await hello('demo')).status).toBe(200)
  await samples.call('POST', '/api/authenticate', json({ name: 'demo', password: SECRET }))
  await samples.call('GET', '/api', { headers: { 'x-access-token': SECRET } })
  const denials = samples.logs
    .map((line) => JSON.parse(line))
    .filter(({ msg }) => msg === 'access denied')
  expect(
    denials.slice(-3).map(({ component, reason, subject }) => [component, reason, subject]),
  ).toEqual([
    ['samples', 'TOO_MANY_FAILURES', undefined],
    ['samples', 'LOGIN_FAILED', 'demo'],
    ['samples', 'TOKEN_INVALID', undefined],
  ])
  expect(samples.logs.join()).not.toContain(SECRET)
  await samples.close()
})

it('the gateway answers a wrong secret with error="invalid_token", and a request without one with a plain challenge', async () => {
  const node = await gateway({ apiKey: 'key' })
  const challenge = async (headers: Record<string, string>) =>
    (await node.send('GET', '/api/Trader', undefined, headers)).headers.get('www-authenticate')
  expect(await challenge({})).toBe('Bearer realm="daicho"')
  for (const headers of [{ authorization: `Bearer ${SECRET}` }, { 'x-api-key': SECRET }]) {
    expect(await challenge(headers)).toBe('Bearer realm="daicho", error="invalid_token"')
  }
})

it('remembers the denials of the last hour, at most 500, and counts repeated ones', () => {
  const clock = new HandClock()
  const denials = new Denials(clock)
  const logger = { warn: () => {} } as unknown as Parameters<Denials['note']>[0]['logger']
  const note = (n: number) =>
    denials.note(
      {
        ...{ component: 'ledger', logger, address: `10.0.0.${n}` },
        fields: { method: 'GET', path: `/api/${n}` },
      },
      { reason: 'TOKEN_INVALID' },
    )
  for (let n = 0; n < 501; n += 1) note(n)
  clock.time += 3_600_000
  note(1)
  const recent = denials.recent()
  expect(recent).toHaveLength(500)
  expect(recent[0]).toMatchObject({ address: '10.0.0.1', count: 1, last: clock.time })
  note(1)
  clock.time += 1
  expect(denials.recent()).toMatchObject([{ count: 2, first: clock.time - 1 }])
})
