// Access with tokens of the issuer oidc-provider: ledger, sample API, and a business network.
import { expect, it } from 'vitest'
import { gateway } from '../support/gateway.ts'
import { type AcceptingTokens, acceptTokens, startIssuer } from '../support/issuer.ts'
import { startLedgerNode } from '../support/ledger-node.ts'
import { type RealIssuer, startRealIssuer } from '../support/real-issuer.ts'
import { startSamples } from '../support/samples-listener.ts'
import { until } from '../support/until.ts'

/** Number of requests while keys are exchanged; ISSUER_REQUESTS=10000 runs the long version. */
const REQUESTS = Number(process.env.ISSUER_REQUESTS ?? 100)

const systemTime = { now: () => Date.now() }

async function acceptReal(issuer: RealIssuer): Promise<AcceptingTokens> {
  const stub = await startIssuer()
  return acceptTokens([{ ...stub, url: issuer.url, clock: systemTime as never }])
}

it('gives access to the ledger and the sample API, and names the client as the author', async () => {
  const issuer = await startRealIssuer('http://127.0.0.1/')
  const accepting = await acceptReal(issuer)
  expect(accepting.reports).toEqual([])
  const node = await startLedgerNode({ tokens: accepting.tokens, clock: systemTime })
  const headers = { authorization: `Bearer ${await issuer.token('db:fruit:admin ledger:read')}` }
  expect((await node.send('POST', '/api/fruit', undefined, headers)).status).toBe(200)
  expect((await node.send('POST', '/api/nuts', undefined, headers)).status).toBe(403)
  const path = `/api/ledgers?serverid=${node.service.serverId}`
  const { ledgers } = (await node.send('GET', path, undefined, headers)).json
  expect(ledgers[0].body[0].by).toEqual({ iss: issuer.url, sub: 'robot' })
  await node.close()

  const samples = await startSamples({ issuers: accepting.issuerTokens })
  samples.clock.nowMs = Date.now()
  const welcome = await samples.call('GET', '/api', { headers })
  expect(JSON.parse(welcome.text)).toEqual({ message: 'Welcome to the sample API.' })
  const forged = { authorization: `${headers.authorization.slice(0, -4)}AAAA` }
  const refused = await samples.call('GET', '/api', { headers: forged })
  expect(JSON.parse(refused.text)).toEqual({ success: false, message: 'Invalid token.' })
  await samples.close()
})

it(`exchanges its keys during ${REQUESTS} requests without a refusal`, async () => {
  const issuer = await startRealIssuer('http://127.0.0.1/')
  const accepting = await acceptReal(issuer)
  const node = await startLedgerNode({ tokens: accepting.tokens, clock: systemTime })
  const statuses = new Map<number, number>()
  const every = Math.ceil(REQUESTS / 8)
  let token = ''
  for (let n = 0; n < REQUESTS; n += 1) {
    const round = Math.floor(n / every)
    if (n % every === 0 && round % 2 === 1) {
      // Like issuers do: published first, used after nodes had time to fetch it.
      await issuer.addKey(`key ${round}`, { signs: false })
      accepting.schedule.run()
      await until('the keys were fetched', () => accepting.schedule.timers.size === 1)
      await issuer.addKey(`key ${round}`, { signs: true })
    }
    if (n % 10 === 0) token = await issuer.token('db:fruit:admin')
    const headers = { authorization: `Bearer ${token}` }
    const { status } = await node.send('GET', '/api/dbs', undefined, headers)
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
  }
  expect([...statuses]).toEqual([[200, REQUESTS]])
  await node.close()
})

it('lets an account act as the participant to which an identity is bound, until the identity or the token is revoked', async () => {
  const issuer = await startRealIssuer('http://127.0.0.1/')
  const { tokens } = await acceptReal(issuer)
  const node = await gateway({ findAccount: (token) => tokens.findAccount(token) })
  await node.send('POST', '/api/Trader', { tradeId: 'T1', firstName: 'A', lastName: 'B' })
  const participant = 'resource:org.acme.mynetwork.Trader#T1'
  const certificate = `oidc:${issuer.url} robot`
  const path = '/api/system/identities'
  const token = await issuer.token('')
  const headers = { authorization: `Bearer ${token}` }
  const ping = () => node.send('GET', '/api/system/ping', undefined, headers)
  expect([(await ping()).status, (await ping()).json.error.code]).toEqual([401, 'IDENTITY_UNKNOWN'])
  const bound = await node.send('POST', `${path}/bind`, { participant, certificate })
  expect(bound.status).toBe(204)
  expect((await ping()).json.participant).toBe('org.acme.mynetwork.Trader#T1')
  const forged = await node.send('GET', '/api/system/ping', undefined, {
    authorization: `Bearer ${token.slice(0, -4)}AAAA`,
  })
  expect([forged.status, forged.headers.get('www-authenticate')]).toEqual([
    401,
    'Bearer realm="daicho", error="invalid_token"',
  ])
  const [{ identityId, state, name }] = (await node.send('GET', path)).json
  expect([state, name]).toEqual(['BOUND', 'T1'])
  for (const wrong of [
    'oidc:',
    'oidc:x y',
    'oidc:https://x',
    'oidc: robot',
    'oidc:https://x \u0000',
  ])
    expect(
      (await node.send('POST', `${path}/bind`, { participant, certificate: wrong })).status,
    ).toBe(422)
  expect((await node.send('POST', `${path}/${identityId}/revoke`)).status).toBe(204)
  expect((await ping()).status).toBe(401)
  const again = await node.send('POST', `${path}/bind`, { participant, certificate })
  expect(again.json.error.code).toBe('RESOURCE_EXISTS')
})
