import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { answering } from '../support/answering.ts'
import { runDaicho, serveLedger, startDaicho } from '../support/daicho.ts'
import { AUDIENCE, createSigningKey, startIssuer } from '../support/issuer.ts'
import { temporaryFolder } from '../support/ledger-node.ts'
import { until } from '../support/until.ts'

it('issues a token that a running node accepts until the token is revoked', async () => {
  const folder = join(temporaryFolder(), 'node')
  const node = await serveLedger(folder, { TOKENS: 'required' })
  const env = { SYSTEM_FOLDER: folder }
  const list = async (token: string) =>
    (await fetch(`${node.url}/api/dbs`, { headers: { authorization: `Bearer ${token}` } })).status

  const json = ['token', 'mint', '--scope', 'db:*:read', 'ledger:read', '--ttl', '24h', '--json']
  const minted = await runDaicho([...json, '--subject', 'reporting'], env)
  expect([minted.code, minted.stderr]).toEqual([0, ''])
  const { token, jti, subject, expires_at } = JSON.parse(minted.stdout)
  const claims = JSON.parse(Buffer.from(token.split('.')[1], 'base64url').toString())
  expect(claims).toMatchObject({
    scope: 'db:*:read ledger:read',
    sub: 'reporting',
    aud: 'daicho:api',
    jti,
  })
  expect([claims.exp - claims.iat, claims.exp * 1000, subject]).toEqual([
    86_400,
    expires_at,
    'reporting',
  ])
  expect(await list(token)).toBe(200)
  expect((await runDaicho(['token', 'revoke', jti], env)).stdout).toBe(`revoked ${jti}\n`)
  const mistaken = await runDaicho(['token', 'revoke', 'reporting'], env)
  expect([mistaken.code, mistaken.stdout]).toEqual([2, ''])
  expect(mistaken.stderr).toContain('"reporting" is not the id of a token')
  expect(await list(token)).toBe(401)
  const listed = await runDaicho(['token', 'list', '--url', node.url, '--folder', folder])
  expect(listed.stdout).toMatch(
    new RegExp(`^${jti}  reporting  db:\\*:read ledger:read  used \\S+Z  REVOKED\n$`),
  )

  const other = await answering(200, '{}')
  await runDaicho(['token', 'list', '--url', other.url.replace('127.0.0.1', '0.0.0.0')], env)
  expect(other.requests).toEqual(['GET /api/config/tokens'])

  const plain = await runDaicho(['token', 'mint', '--scope', 'db:a:b:write'], env)
  expect(plain.stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/)
  expect(plain.stderr).toMatch(/^valid until \S+; to revoke it: daicho token revoke \S+\n$/)
  expect(await list(plain.stdout.trim())).toBe(200)
  for (const wrong of [[], [jti, '--subject', 'operator'], ['--issuer', 'https://x']])
    expect((await runDaicho(['token', 'revoke', ...wrong], env)).code).toBe(2)
  const others = ['token', 'revoke', '--subject', 'operator', '--issuer', 'https://x']
  expect((await runDaicho(others, env)).stdout).toBe(
    'revoked the tokens of operator of https://x\n',
  )
  expect(await list(plain.stdout.trim())).toBe(200)
  const all = await runDaicho(['token', 'revoke', '--subject', 'operator'], env)
  expect(all.stdout).toBe('revoked the tokens of operator\n')
  expect(await list(plain.stdout.trim())).toBe(401)
  node.child.kill('SIGTERM')
  const { code, stderr } = await node.ended
  expect(code).toBe(0)
  expect(stderr).not.toContain(token)
})

it('signs a token with SECRET if it is set, without a folder, and otherwise requires the folder of a node', async () => {
  const mint = ['token', 'mint', '--scope', 'ledger:read']
  const signed = await runDaicho(mint, { SECRET: 's'.repeat(32) })
  expect(signed.code).toBe(0)
  expect((await runDaicho(mint)).code).toBe(78)
  expect((await runDaicho(mint, { SYSTEM_FOLDER: '/nowhere/at/all' })).code).toBe(78)
})

it.each([
  [[], "required option '--scope"],
  [['--scope', 'db:fruit'], 'unknown scope "db:fruit"'],
  [['--scope', 'ledger:read', '--ttl', '367d'], '1s to 366d'],
  [['--scope', 'ledger:read', '--ttl', '0s'], '1s to 366d'],
  [['--scope', 'ledger:read', '--ttl', 'soon'], 'such as 4d'],
  [['--scope', 'ledger:read', '--subject', ''], '1 to 256 bytes'],
  [['--scope', ...Array.from({ length: 200 }, (_, at) => `db:${at}-database:read`)], '2000'],
])('daicho token mint rejects the flags %j with exit code 2', async (flags, message) => {
  const folder = temporaryFolder()
  mkdirSync(join(folder, 'node'))
  const env = { SYSTEM_FOLDER: join(folder, 'node') }
  const { code, stdout, stderr } = await runDaicho(['token', 'mint', ...flags], env)
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toContain(message)
})

it('does not start with settings of issuers that cannot work, and says why in one line', async () => {
  const folder = temporaryFolder()
  const rules = join(folder, 'scopes.json')
  writeFileSync(rules, '[{"claim":"groups","value":"a","scopes":["ledger:write"]}]')
  const good = { OIDC_ISSUERS: 'https://x.example', OIDC_AUDIENCE: 'a', TOKENS: 'required' }
  for (const [variables, message] of [
    [{ OIDC_AUDIENCE: '' }, 'OIDC_ISSUERS needs OIDC_AUDIENCE'],
    [{ OIDC_ISSUERS: 'http://127.0.0.1:1' }, 'must begin with https:, unless OIDC_ALLOW_PRIVATE=1'],
    [{ OIDC_ISSUERS: 'x.example' }, 'OIDC_ISSUERS must be up to 16 addresses'],
    [
      { OIDC_SCOPES_FILE: rules },
      `OIDC_SCOPES_FILE: ${rules}: rule 1: unknown scope "ledger:write"`,
    ],
    [{ OIDC_SCOPES_FILE: folder }, 'OIDC_SCOPES_FILE'],
    [
      { OIDC_CLIENT_ID: 'd', TOKENS: 'off' },
      'OIDC_CLIENT_ID needs OIDC_ISSUERS and TOKENS=required',
    ],
  ] as const) {
    const serve = ['serve', '--only', 'ledger', '--port', '0']
    const { code, stdout, stderr } = await runDaicho(serve, { ...good, ...variables })
    expect([code, stdout]).toEqual([78, ''])
    expect(stderr.trimEnd().split('\n').at(-1)).toContain(message)
  }
})

it('accepts tokens of an issuer in all components, and offers its sign-in', async () => {
  const issuer = await startIssuer()
  issuer.clock.time = Date.now()
  const key = await createSigningKey('one')
  issuer.keys = [key.publicJwk]
  issuer.metadata = {
    authorization_endpoint: `${issuer.url}/authorize`,
    token_endpoint: `${issuer.url}/token`,
  }
  const serve = ['serve', '--only', 'ledger,samples,gateway', '--json', '--port', '0']
  const daicho = startDaicho([...serve, '--sample-port', '0', '--gateway-port', '0'], {
    ...{ TOKENS: 'required', OIDC_ISSUERS: issuer.url, OIDC_AUDIENCE: AUDIENCE },
    ...{ OIDC_ALLOW_PRIVATE: '1', OIDC_CLIENT_ID: 'dashboard', OIDC_SCOPE_CLAIM: 'roles' },
    ...{ SYSTEM_FOLDER: temporaryFolder(), LOG_LEVEL: 'error', GATEWAY_API_KEY: 'the key' },
  })
  const urls = JSON.parse(await daicho.firstLine)
  const token = await issuer.sign(key, { roles: ['db:*:admin'] })
  const headers = { authorization: `Bearer ${token}` }
  await until('the keys were fetched', async () => {
    const { status } = await fetch(`${urls.ledger}/api/dbs`, { headers })
    return status === 200
  })
  const read = async (url: string) => (await fetch(url, { headers })).json()
  expect(await read(`${urls.samples}/api`)).toEqual({ message: 'Welcome to the sample API.' })
  const ping = `${urls.gateway}/mynetwork/api/system/ping`
  expect(Object(await read(ping)).error.code).toBe('IDENTITY_UNKNOWN')
  const network = async (...args: string[]) => {
    const flags = ['--url', urls.gateway]
    return runDaicho(['network', 'identity', ...args, ...flags], { GATEWAY_API_KEY: 'the key' })
  }
  const admin = { 'x-api-key': 'the key', 'content-type': 'application/json' }
  const trader = JSON.stringify({ tradeId: 'T1', firstName: 'A', lastName: 'B' })
  await fetch(`${urls.gateway}/api/Trader`, { method: 'POST', headers: admin, body: trader })
  const participant = 'org.acme.mynetwork.Trader#T1'
  const bound = await network('bind', 'mynetwork', participant, `oidc:${issuer.url} ada`)
  expect([bound.code, bound.stdout]).toEqual([0, `bound to ${participant}\n`])
  expect(Object(await read(ping)).participant).toBe(participant)

  const page = await fetch(urls.ledger)
  expect(page.status).toBe(200)
  expect(page.headers.get('content-security-policy')).toContain(`connect-src 'self' ${issuer.url};`)
  expect(await read(`${urls.ledger}/session`)).toEqual({
    ...{ status: true, issuer: issuer.url, client_id: 'dashboard', parameters: '' },
    authorization_endpoint: `${issuer.url}/authorize`,
    token_endpoint: `${issuer.url}/token`,
  })
  daicho.child.kill('SIGTERM')
  const { code, stderr } = await daicho.ended
  expect([code, stderr.includes(token)]).toEqual([0, false])
})
