// Access tokens of OpenID Connect issuers.
import { createHmac } from 'node:crypto'
import { type CryptoKey, exportSPKI, generateKeyPair, importJWK, type JWK, SignJWT } from 'jose'
import { beforeAll, describe, expect, it } from 'vitest'
import {
  type AcceptingTokens,
  AUDIENCE,
  acceptTokens,
  answerIssuer,
  createSigningKey,
  type SigningKey,
  startIssuer,
  type TestIssuer,
} from '../support/issuer.ts'
import { startLedgerNode } from '../support/ledger-node.ts'
import { until } from '../support/until.ts'

const API = 'daicho:api'
/** Number of requests while keys are exchanged; ISSUER_REQUESTS=10000 runs the long version. */
const REQUESTS = Number(process.env.ISSUER_REQUESTS ?? 100)
let key: SigningKey
let nextKey: SigningKey
beforeAll(async () => {
  key = await createSigningKey('one')
  nextKey = await createSigningKey('two', 'ES256')
})

const startOne = async (path = '') => {
  const issuer = await startIssuer(path)
  issuer.keys = [key.publicJwk]
  return issuer
}

const outcome = ({ tokens }: AcceptingTokens, token: string) =>
  tokens.verify(token, API).then(
    () => 'valid',
    ({ code }: { code?: string }) => code,
  )
const reason = ({ tokens }: AcceptingTokens, token: string) =>
  tokens.verify(token, API).then(
    () => 'valid',
    ({ cause }: { cause?: Error }) => cause?.message,
  )

describe('a token of an issuer', () => {
  it('gives access with the scopes of its claims and of the rules, and its owner is the author of changes', async () => {
    const issuer = await startOne('/realms/acme')
    const rules = JSON.stringify([
      { claim: 'groups', value: 'auditors', scopes: ['ledger:read'] },
      { claim: 'realm_access.roles', value: 'keeper', scopes: ['db:fruit:admin'] },
      { issuer: 'https://other.example', claim: 'sub', value: 'ada', scopes: ['node:admin'] },
    ])
    const accepting = await acceptTokens([issuer], { rules })
    const node = await startLedgerNode({ tokens: accepting.tokens, clock: issuer.clock })
    const token = await issuer.sign(key, {
      scope: 'openid db:nuts:read',
      groups: ['staff', 'auditors'],
      realm_access: { roles: ['keeper'] },
      jti: 'of the issuer',
    })
    const headers = { authorization: `Bearer ${token}` }
    expect((await node.send('POST', '/api/fruit', undefined, headers)).status).toBe(200)
    await node.send('POST', '/api/fruit', { id: 'fig' }, { 'x-access-token': token })
    expect((await node.send('POST', '/api/nuts', undefined, headers)).json.code).toBe(
      'SCOPE_MISSING',
    )
    expect((await node.send('GET', '/api/config/peers', undefined, headers)).status).toBe(403)
    const path = `/api/ledgers?serverid=${node.service.serverId}`
    const { ledgers } = (await node.send('GET', path, undefined, headers)).json
    const by = { iss: issuer.url, sub: 'ada' }
    expect(ledgers.flatMap(({ body }: { body: { by: object }[] }) => body)).toMatchObject([
      { method: 'create_db', by },
      { method: 'create_item', by },
    ])
    const [listed] = accepting.tokens.remembered()
    expect(listed).toMatchObject({ subject: 'ada', issuer: issuer.url, isRevoked: false })
    const admin = await issuer.sign(key, { scope: 'node:admin' })
    const list = { authorization: `Bearer ${admin}` }
    const { json } = await node.send('GET', '/api/config/tokens', undefined, list)
    expect(json.tokens.map(({ scopes }: { scopes: string[] }) => scopes)).toEqual([
      ['node:admin'],
      ['openid', 'db:nuts:read', 'ledger:read', 'db:fruit:admin'],
    ])
    const revoking = `/api/config/tokens/${listed?.jti}`
    expect((await node.send('DELETE', revoking, undefined, list)).status).toBe(200)
    const refused = await node.send('GET', '/api/fruit', undefined, headers)
    expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([
      401,
      'Bearer realm="daicho", error="invalid_token"',
    ])
    await node.close()
  })

  it('a token of an issuer is revoked by its jti or with all tokens that its subject has, and only at its issuer', async () => {
    const [issuer, other] = [await startOne(), await startOne()]
    const accepting = await acceptTokens([issuer, other])
    const { tokens } = accepting
    const [first, second] = [
      await issuer.sign(key, { jti: 'a' }),
      await issuer.sign(key, { jti: 'b' }),
    ]
    const foreign = await other.sign(key, { jti: 'a' })
    await tokens.revoke({ jti: 'a', issuer: issuer.url })
    expect(await outcome(accepting, first)).toBe('TOKEN_INVALID')
    expect(await outcome(accepting, second)).toBe('valid')
    expect(await outcome(accepting, foreign)).toBe('valid')
    await tokens.revoke({ subject: 'ada', issuer: issuer.url })
    expect(await outcome(accepting, second)).toBe('TOKEN_INVALID')
    expect(await outcome(accepting, foreign)).toBe('valid')
    issuer.clock.time += 61_001
    const later = await issuer.sign(key)
    expect(await outcome(accepting, later)).toBe('valid')
  })

  it('a token of an issuer expires 60 seconds after its time, and may be issued up to 60 seconds in the future', async () => {
    const issuer = await startOne()
    const accepting = await acceptTokens([issuer])
    const now = issuer.clock.time / 1000
    const early = await issuer.sign(key, { iat: now + 60, nbf: now + 60, exp: now + 61 })
    expect(await outcome(accepting, early)).toBe('valid')
    issuer.clock.time += 120_000
    expect(await outcome(accepting, early)).toBe('valid')
    issuer.clock.time += 1_000
    expect(await reason(accepting, early)).toBe('it has expired')
  })

  it('a token of an issuer is accepted with each asymmetric algorithm that the issuer announces', async () => {
    const issuer = await startIssuer()
    const keys: SigningKey[] = []
    for (const alg of ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA', 'RS512', 'ES512'])
      keys.push(await createSigningKey(alg, alg))
    issuer.keys = keys.map(({ publicJwk }) => publicJwk)
    const accepting = await acceptTokens([issuer])
    const seen: Record<string, string | undefined> = {}
    for (const each of keys) seen[each.alg] = await outcome(accepting, await issuer.sign(each))
    const valid = { RS256: 'valid', PS256: 'valid', ES256: 'valid', ES384: 'valid', EdDSA: 'valid' }
    expect(seen).toEqual({ ...valid, RS512: 'TOKEN_INVALID', ES512: 'TOKEN_INVALID' })
    issuer.metadata = { id_token_signing_alg_values_supported: ['ES256', 'HS256', 'none'] }
    await accepting.refresh()
    const [rs256, , es256] = keys as [SigningKey, SigningKey, SigningKey]
    expect(await outcome(accepting, await issuer.sign(es256))).toBe('valid')
    expect(await outcome(accepting, await issuer.sign(rs256))).toBe('TOKEN_INVALID')
  })

  it('names its subject with the chosen claim', async () => {
    const issuer = await startOne()
    const accepting = await acceptTokens([issuer], { subjectClaim: 'email' })
    const found = await accepting.tokens.verify(await issuer.sign(key, { email: 'a@b.c' }), API)
    expect(found).toMatchObject({ subject: 'a@b.c', issuer: issuer.url })
    for (const email of [undefined, '', 7, ['a'], 'x'.repeat(257), 'a\nb'])
      expect(await outcome(accepting, await issuer.sign(key, { email }))).toBe('TOKEN_INVALID')
  })
})

it('a token with one changed character is refused, or is the same token for a revocation', async () => {
  const issuer = await startOne()
  const accepting = await acceptTokens([issuer])
  const token = await issuer.sign(key)
  const { jti } = await accepting.tokens.verify(token, API)
  let same = 0
  for (let at = 0; at < token.length; at += 1) {
    const changed = `${token.slice(0, at)}${token[at] === 'A' ? 'B' : 'A'}${token.slice(at + 1)}`
    const found = await accepting.tokens.verify(changed, API).catch(({ code }) => code)
    if (found === 'TOKEN_INVALID') continue
    same += 1
    expect([at, found.jti]).toEqual([token.length - 1, jti])
  }
  expect(same).toBeLessThan(2)
})

describe('a token is refused', () => {
  let issuer: TestIssuer
  let other: TestIssuer
  const now = 1_800_000_000
  const cases: Record<string, () => Promise<string>> = {
    'with alg none': async () => {
      const [, payload] = (await issuer.sign(key)).split('.')
      const header = Buffer.from('{"alg":"none","typ":"at+jwt"}').toString('base64url')
      return `${header}.${payload}.`
    },
    'with alg none and a signature': async () => {
      const [, payload, signature] = (await issuer.sign(key)).split('.')
      const header = Buffer.from('{"alg":"none","kid":"one"}').toString('base64url')
      return `${header}.${payload}.${signature}`
    },
    'signed with HS256 and the public key as the secret': async () => {
      const [, payload] = (await issuer.sign(key)).split('.')
      const header = Buffer.from('{"alg":"HS256","kid":"one","typ":"JWT"}').toString('base64url')
      const pem = await exportSPKI((await importJWK(key.publicJwk, 'RS256')) as CryptoKey)
      const signature = createHmac('sha256', pem).update(`${header}.${payload}`).digest('base64url')
      return `${header}.${payload}.${signature}`
    },
    'signed with HS512 and the public key as the secret': async () => {
      const [, payload] = (await issuer.sign(key)).split('.')
      const header = Buffer.from('{"alg":"HS512","kid":"one","typ":"JWT"}').toString('base64url')
      const secret = JSON.stringify(key.publicJwk)
      const signature = createHmac('sha512', secret).update(`${header}.${payload}`).digest()
      return `${header}.${payload}.${signature.toString('base64url')}`
    },
    'for another audience': () => issuer.sign(key, { aud: 'https://other.example' }),
    'for an audience that contains the right one': () => issuer.sign(key, { aud: `${AUDIENCE}/x` }),
    'without an audience': () => issuer.sign(key, { aud: undefined }),
    'that is an ID token by its nonce': () => issuer.sign(key, { nonce: 'n' }, { typ: 'JWT' }),
    'that is an ID token by its at_hash': () => issuer.sign(key, { at_hash: 'h' }, { typ: 'JWT' }),
    'that is an ID token of Keycloak': () => issuer.sign(key, { typ: 'ID' }, { typ: 'JWT' }),
    'that is a refresh token of Keycloak': () =>
      issuer.sign(key, { typ: 'Refresh' }, { typ: 'JWT' }),
    'that is an ID token of Cognito': () => issuer.sign(key, { token_use: 'id' }, { typ: 'JWT' }),
    'of the type of a logout token': () => issuer.sign(key, {}, { typ: 'logout+jwt' }),
    'of the type of a DPoP proof': () => issuer.sign(key, {}, { typ: 'dpop+jwt' }),
    'that is bound to a key': () => issuer.sign(key, { cnf: { jkt: 'x' } }),
    expired: () => issuer.sign(key, { iat: now - 1_000, exp: now - 60 }),
    'before its time': () => issuer.sign(key, { nbf: now + 61 }),
    'issued in the future': () => issuer.sign(key, { iat: now + 61 }),
    'without exp': () => issuer.sign(key, { exp: undefined }),
    'without iat': () => issuer.sign(key, { iat: undefined }),
    'valid for more than 366 days': () => issuer.sign(key, { exp: now + 367 * 86_400 }),
    'of an unknown issuer': () => issuer.sign(key, { iss: `${issuer.url}/` }),
    'of an unknown issuer in a list': () => issuer.sign(key, { iss: [issuer.url] as never }),
    'signed by another issuer with the same key id': async () => {
      const mallory = await createSigningKey('one')
      other.keys = [mallory.publicJwk]
      return other.sign(mallory, { iss: issuer.url })
    },
    'with the critical header that nobody understands': () =>
      issuer.sign(key, {}, { crit: ['exp'], exp: 1 } as never).catch(async () => {
        const [, payload, signature] = (await issuer.sign(key)).split('.')
        const header = Buffer.from('{"alg":"RS256","kid":"one","crit":["x"],"x":1}')
        return `${header.toString('base64url')}.${payload}.${signature}`
      }),
    'whose key is in its header jwk': () => withOwnKey({ jwk: true }),
    'whose key is at its header jku': () => withOwnKey({ jku: `${other.url}/keys` }),
    'whose key is at its header x5u': () => withOwnKey({ x5u: `${other.url}/keys` }),
    'with an altered payload': async () => {
      const [header, , signature] = (await issuer.sign(key)).split('.')
      const payload = { iss: issuer.url, aud: AUDIENCE, sub: 'eve', iat: now, exp: now + 60 }
      return `${header}.${Buffer.from(JSON.stringify(payload)).toString('base64url')}.${signature}`
    },
    'whose payload is not an object': async () => {
      const [header, , signature] = (await issuer.sign(key)).split('.')
      return `${header}.${Buffer.from('[1]').toString('base64url')}.${signature}`
    },
    'that is too long': () => issuer.sign(key, { filler: 'x'.repeat(8_192) }),
    'with a subject that is not a text': () => issuer.sign(key, { sub: 7 as never }),
  }

  /** Returns a token that is signed with a key of the attacker, under the key id of the issuer. */
  async function withOwnKey(header: { jwk?: true; jku?: string; x5u?: string }): Promise<string> {
    const mallory = await createSigningKey('one')
    other.keys = [mallory.publicJwk]
    const own = header.jwk === true ? { jwk: mallory.publicJwk } : header
    return issuer.sign(mallory, {}, own as object)
  }

  it.for(Object.entries(cases))('a token is refused: %s', async ([, create]) => {
    issuer = await startOne()
    other = await startIssuer()
    const accepting = await acceptTokens([issuer])
    const node = await startLedgerNode({ tokens: accepting.tokens, clock: issuer.clock })
    const control = { authorization: `Bearer ${await issuer.sign(key)}` }
    expect((await node.send('GET', '/api/dbs', undefined, control)).status).toBe(200)
    const [asked, askedOther] = [issuer.requests, other.requests]
    const headers = { authorization: `Bearer ${await create()}` }
    const {
      status,
      json,
      headers: replied,
    } = await node.send('GET', '/api/dbs', undefined, headers)
    expect([status, json?.code, replied.get('www-authenticate')]).toEqual([
      401,
      'TOKEN_INVALID',
      'Bearer realm="daicho", error="invalid_token"',
    ])
    expect([issuer.requests, other.requests]).toEqual([asked, askedOther])
    await node.close()
  })
})

describe('the keys of an issuer', () => {
  it(`the keys of an issuer are exchanged during ${REQUESTS} requests without a refusal`, async () => {
    const issuer = await startOne()
    const accepting = await acceptTokens([issuer])
    const node = await startLedgerNode({ tokens: accepting.tokens, clock: issuer.clock })
    let current = key
    const statuses = new Map<number, number>()
    for (let n = 0; n < REQUESTS; n += 1) {
      if (n % Math.floor(REQUESTS / 5) === 1) {
        // The issuer publishes the next key, and uses it after nodes have fetched it.
        const next = current === key ? nextKey : key
        issuer.keys = [current.publicJwk, next.publicJwk]
        accepting.schedule.run()
        await until('the keys were fetched', () => accepting.schedule.timers.size === 1)
        current = next
      }
      const token = await issuer.sign(current, { jti: `${n % 50}` })
      const headers = { authorization: `Bearer ${token}` }
      const { status } = await node.send('GET', '/api/dbs', undefined, headers)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
    expect([...statuses]).toEqual([[200, REQUESTS]])
    await node.close()
  })

  it('the keys of an issuer are fetched for an unknown key, at most every 30 seconds, while the request is told to try again', async () => {
    const issuer = await startOne()
    const accepting = await acceptTokens([issuer])
    const node = await startLedgerNode({ tokens: accepting.tokens, clock: issuer.clock })
    const token = await issuer.sign(nextKey)
    const read = async () => {
      const headers = { authorization: `Bearer ${token}` }
      const { status, headers: replied } = await node.send('GET', '/api/dbs', undefined, headers)
      return [status, replied.get('retry-after')]
    }
    const requests = issuer.requests
    issuer.clock.time += 29_999
    expect(await read()).toEqual([401, null])
    expect(issuer.requests).toBe(requests)
    issuer.keys = [key.publicJwk, nextKey.publicJwk]
    issuer.clock.time += 1
    expect(await read()).toEqual([503, '1'])
    await until('the key is known', async () => (await read())[0] === 200)
    expect(issuer.requests).toBe(requests + 2)
    await node.close()
  })

  it('the keys of an issuer stay valid for 24 hours while the issuer is down, then no request is served, until it is back', async () => {
    const issuer = await startOne()
    const accepting = await acceptTokens([issuer])
    const day = { exp: issuer.clock.time / 1000 + 3 * 86_400 }
    const token = await issuer.sign(key, day)
    expect(await outcome(accepting, token)).toBe('valid')
    issuer.answer = (_path, _reply, request) => request.destroy()
    for (let hours = 0; hours < 24; hours += 8) {
      issuer.clock.time += 8 * 3_600_000
      await accepting.refresh()
      expect(await outcome(accepting, token)).toBe('valid')
    }
    issuer.clock.time += 1
    expect(await outcome(accepting, token)).toBe('ISSUER_UNAVAILABLE')
    expect(await outcome(accepting, await issuer.sign(key))).toBe('ISSUER_UNAVAILABLE')
    expect(accepting.reports).toHaveLength(1)
    issuer.answer = null
    await accepting.refresh()
    expect(await outcome(accepting, token)).toBe('valid')
    expect(accepting.reports[1]).toBe(`the issuer ${issuer.url} is available again`)
    // Timers stand still while the computer sleeps.
    issuer.clock.time += 25 * 3_600_000
    expect(await outcome(accepting, token)).toBe('ISSUER_UNAVAILABLE')
    await until('the keys are known', async () => (await outcome(accepting, token)) === 'valid')
  })

  it('the keys of an issuer are no longer valid once the issuer has withdrawn them, even for tokens seen before', async () => {
    const issuer = await startOne()
    const accepting = await acceptTokens([issuer])
    const token = await issuer.sign(key)
    expect(await outcome(accepting, token)).toBe('valid')
    issuer.keys = [nextKey.publicJwk]
    await accepting.refresh()
    expect(await outcome(accepting, token)).toBe('TOKEN_INVALID')
  })

  const document = (members: object) => (issuer: TestIssuer) => {
    issuer.metadata = members as Record<string, unknown>
  }
  const text =
    (body: string, status = 200) =>
    (issuer: TestIssuer) => {
      issuer.answer = (_path, reply) => void reply.writeHead(status).end(body)
    }
  const bad: [string, RegExp, (issuer: TestIssuer) => void][] = [
    ['answers with a page', /not JSON/, text('<html>')],
    ['answers with an error', /status 500/, text('{}', 500)],
    ['answers with a list', /not a JSON object/, text('[]')],
    ['answers with deep JSON', /nesting exceeds/, text('['.repeat(100_000))],
    [
      'has another name',
      /calls itself "https:\/\/x"; write exactly/,
      document({ issuer: 'https://x' }),
    ],
    [
      'has a name for all tenants',
      /\{tenantid\}/,
      document({ issuer: 'https://x/{tenantid}/v2.0' }),
    ],
    ['publishes no address of keys', /no jwks_uri/, document({ jwks_uri: 7 })],
    ['has its keys at a file', /scheme file:/, document({ jwks_uri: 'file:///etc/passwd' })],
    [
      'has its keys at a public http address',
      /not allowed/,
      document({ jwks_uri: 'http://8.8.8.8/' }),
    ],
    [
      'has its keys at a cloud metadata service',
      /169\.254/,
      document({ jwks_uri: 'http://169.254.169.254/' }),
    ],
    [
      'publishes too many keys',
      /at most 100 keys/,
      (issuer) => (issuer.keys = new Array(101).fill({ kty: 'x' })),
    ],
    ['publishes no list of keys', /at most 100 keys/, (issuer) => (issuer.keys = {} as never)],
    [
      'redirects',
      /redirect/,
      (issuer) => {
        issuer.answer = (_path, reply) => void reply.writeHead(302, { location: '/x' }).end()
      },
    ],
    [
      'sends 50 MB',
      /too long/,
      (issuer) => {
        issuer.answer = (_path, reply) => {
          const part = Buffer.alloc(1024 * 1024, ' ')
          let sent = 0
          const more = () => {
            sent += 1
            if (sent > 50 || reply.destroyed) return void reply.end()
            reply.write(part, more)
          }
          more()
        }
      },
    ],
  ]
  it.for(bad)(
    'the keys of an issuer stay as they were if the issuer %s',
    async ([, report, spoil]) => {
      const issuer = await startOne()
      const accepting = await acceptTokens([issuer])
      spoil(issuer)
      await accepting.refresh()
      expect(accepting.reports).toEqual([expect.stringMatching(report)])
      expect(await outcome(accepting, await issuer.sign(key))).toBe('valid')
      expect([...accepting.schedule.timers.values()]).toEqual([30_000])
      const fresh = await acceptTokens([issuer])
      expect(await outcome(fresh, await issuer.sign(key))).toBe('ISSUER_UNAVAILABLE')
    },
  )

  it('the keys of an issuer are usable beside keys of other kinds', async () => {
    const issuer = await startIssuer()
    const { privateKey } = await generateKeyPair('RS256', { extractable: true })
    const encryption = { ...key.publicJwk, use: 'enc', kid: 'enc' }
    const odd: unknown[] = [
      ...[null, 7, 'x', {}, { kty: 'AKP', alg: 'ML-DSA-44', kid: 'pq' }],
      ...[{ kty: 'oct', k: 'c2VjcmV0', kid: 'secret', alg: 'HS256' }, encryption],
      { kty: 'RSA', kid: 'broken', n: 7, e: [] },
    ]
    issuer.keys = [...odd, key.publicJwk] as JWK[]
    const accepting = await acceptTokens([issuer])
    expect(accepting.reports).toEqual([])
    expect(await outcome(accepting, await issuer.sign(key))).toBe('valid')
    const broken = { ...key, kid: 'broken' }
    expect(await outcome(accepting, await issuer.sign(broken))).toBe('TOKEN_INVALID')
    const wrongUse = { ...key, kid: 'enc' }
    expect(await outcome(accepting, await issuer.sign(wrongUse))).toBe('TOKEN_INVALID')
    const noKid = await new SignJWT({ iss: issuer.url }).setProtectedHeader({ alg: 'RS256' })
    expect(await outcome(accepting, await noKid.sign(privateKey))).toBe('TOKEN_INVALID')
  })

  it('the keys of an issuer are fetched while a slow issuer keeps no request waiting, and are given up after 5 seconds', async () => {
    const issuer = await startOne()
    const accepting = await acceptTokens([issuer])
    const held: (() => void)[] = []
    issuer.answer = (path, reply) => held.push(() => answerIssuer(issuer, path, reply))
    accepting.schedule.run()
    await until('the issuer was asked', () => held.length === 1)
    expect(await outcome(accepting, await issuer.sign(key))).toBe('valid')
    expect(await outcome(accepting, await issuer.sign(nextKey))).toBe('ISSUER_UNAVAILABLE')
    await until('the request was given up', () => accepting.reports.length === 1)
    expect(accepting.reports[0]).toMatch(/no complete reply from 127\.0\.0\.1 within 5000 ms/)
  })

  it('the keys of an issuer are not fetched from a private address unless this is allowed', async () => {
    const issuer = await startOne()
    const accepting = await acceptTokens([issuer], { allowPrivate: false })
    expect(accepting.reports).toEqual([expect.stringContaining('scheme http: is not allowed')])
    expect(issuer.requests).toBe(0)
  })
})
