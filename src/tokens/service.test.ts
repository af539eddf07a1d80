import { createHmac, generateKeyPairSync } from 'node:crypto'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { importPKCS8, SignJWT } from 'jose'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { roundsOf } from '../../test/support/rounds.ts'
import { KEYS_MAX, TOKEN_LIFE_MAX_MS } from './keys.ts'
import { openTokens, type TokenService } from './service.ts'

const SECRET = 'an operator typed these forty characters'
const AUDIENCE = 'test'
const START_MS = Date.UTC(2026, 10, 20)

let folder: string
const clock = { ms: START_MS, now: () => clock.ms }
beforeEach(async () => {
  clock.ms = START_MS
  folder = await mkdtemp(join(tmpdir(), 'daicho-tokens-'))
})
afterEach(() => rm(folder, { recursive: true }))

const inFolder = () => openTokens({ clock, folder, secret: null })
const withSecret = () => openTokens({ clock, folder: null, secret: SECRET })
const issue = async (tokens: TokenService, lifeSeconds = 60) =>
  tokens.issue({ audience: AUDIENCE, subject: 'ada', lifeSeconds })
const codeOf = async (tokens: TokenService, token: string, audience = AUDIENCE) =>
  tokens.verify(token, audience).then(
    () => 'valid',
    (error: { code?: string }) => error.code,
  )

describe('a token', () => {
  it('contains the granted claims, even if additional claims have the same names', async () => {
    const tokens = await withSecret()
    const claims = { scope: 'ledger:read', sub: 'eve', exp: 1, iss: 'eve', aud: 'eve', jti: 'x' }
    const { token, jti, expiresAt } = await tokens.issue({
      audience: AUDIENCE,
      subject: 'ada',
      lifeSeconds: 60,
      claims,
    })
    expect(expiresAt).toBe(START_MS / 1000 + 60)
    expect(await tokens.verify(token, AUDIENCE)).toMatchObject({
      jti,
      subject: 'ada',
      issuedAt: START_MS / 1000,
      expiresAt,
      claims: { scope: 'ledger:read', iss: 'daicho', aud: AUDIENCE },
    })
  })

  it('a token is rejected by a service with another audience or key', async () => {
    const [first, second] = [await withSecret(), await inFolder()]
    const { token } = await issue(first)
    expect(await codeOf(first, token)).toBe('valid')
    expect(await codeOf(first, token, 'other')).toBe('TOKEN_INVALID')
    expect(await codeOf(second, token)).toBe('TOKEN_INVALID')
  })

  it('a token is valid until the end of the last second of its lifetime', async () => {
    const tokens = await withSecret()
    const { token } = await issue(tokens, 86_400)
    clock.ms += 86_399_000
    expect(await codeOf(tokens, token)).toBe('valid')
    clock.ms += 1000
    expect(await codeOf(tokens, token)).toBe('TOKEN_INVALID')
  })

  it('a token is checked for expiry, audience, keys and revocation even if it is cached', async () => {
    const tokens = await inFolder()
    const other = await inFolder()
    const issued = [await issue(tokens), await issue(tokens), await issue(tokens)]
    const [first, second, third] = issued.map(({ token }) => token)
    for (const { token } of issued) expect(await codeOf(tokens, token)).toBe('valid')
    expect(await codeOf(tokens, first ?? '', 'other')).toBe('TOKEN_INVALID')
    await other.revoke(issued[1]?.jti ?? '')
    expect(await codeOf(tokens, second ?? '')).toBe('TOKEN_INVALID')
    expect(await codeOf(tokens, first ?? '')).toBe('valid')
    clock.ms += 59_999
    expect(await codeOf(tokens, third ?? '')).toBe('valid')
    clock.ms += 1
    expect(await codeOf(tokens, third ?? '')).toBe('TOKEN_INVALID')
    clock.ms -= 1
    await other.rotate({ dropOld: true })
    expect(await codeOf(tokens, first ?? '')).toBe('TOKEN_INVALID')
  })

  it('a token stays valid if the cache is full', async () => {
    const tokens = await withSecret()
    const { token } = await issue(tokens)
    for (let count = 0; count < 1_100; count += 1) {
      expect(await codeOf(tokens, (await issue(tokens)).token)).toBe('valid')
    }
    expect(await codeOf(tokens, token)).toBe('valid')
  })

  it('does not reveal its claims in the error when it is rejected', async () => {
    const tokens = await withSecret()
    const { token } = await issue(tokens)
    clock.ms += 60_000
    const error = await tokens.verify(token, AUDIENCE).catch((caught: unknown) => caught)
    expect(error).toMatchObject({ message: 'the token is not valid here' })
    expect((error as Error).cause).toEqual(new Error('ERR_JWT_EXPIRED'))
  })
})

describe('a foreign or altered token', () => {
  const kidOf = (token: string) =>
    JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()).kid
  const good = { iss: 'daicho', aud: AUDIENCE, sub: 'ada', jti: 'j', iat: 1, exp: 4_000_000_000 }
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signed = (header: object, payload: unknown) => {
    const text = `${part(header)}.${part(payload)}`
    return `${text}.${createHmac('sha256', SECRET).update(text).digest('base64url')}`
  }

  it('a foreign or altered token is rejected, even if it is signed with the right key', async () => {
    const tokens = await withSecret()
    const kid = kidOf((await issue(tokens)).token)
    const head = { alg: 'HS256', typ: 'JWT', kid }
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const rsaPem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
    const rsa = await new SignJWT(good)
      .setProtectedHeader({ ...head, alg: 'RS256' })
      .sign(await importPKCS8(rsaPem, 'RS256'))
    const pem = publicKey.export({ type: 'spki', format: 'pem' })
    const confusedText = `${part(head)}.${part(good)}`
    const confused = createHmac('sha256', pem).update(confusedText).digest('base64url')
    const { exp: _exp, ...withoutExp } = good
    const { jti: _jti, ...withoutJti } = good
    const { sub: _sub, ...withoutSub } = good
    const { iat: _iat, ...withoutIat } = good

    expect(await codeOf(tokens, signed(head, good))).toBe('valid') // a correct token is accepted
    const bad: Record<string, string> = {
      'alg none, no signature': `${part({ ...head, alg: 'none' })}.${part(good)}.`,
      'alg none, signed': signed({ ...head, alg: 'none' }, good),
      'alg None': signed({ ...head, alg: 'None' }, good),
      'alg HS512': signed({ ...head, alg: 'HS512' }, good),
      'alg RS256': rsa,
      'alg RS256 under an HMAC': signed({ ...head, alg: 'RS256' }, good),
      'an HMAC by a public key': `${confusedText}.${confused}`,
      'unknown crit': signed({ ...head, crit: ['nope'], nope: 1 }, good),
      'empty crit': signed({ ...head, crit: [] }, good),
      'b64 false': signed({ ...head, b64: false, crit: ['b64'] }, good),
      'other typ': signed({ ...head, typ: 'at+jwt' }, good),
      'no typ': signed({ alg: 'HS256', kid }, good),
      'no kid': signed({ alg: 'HS256', typ: 'JWT' }, good),
      'other kid': signed({ ...head, kid: 'x' }, good),
      'its own key in the header': signed(
        { ...head, kid: 'x', jwk: { kty: 'oct', k: 'AA' } },
        good,
      ),
      'missing exp': signed(head, withoutExp),
      'string exp': signed(head, { ...good, exp: '4000000000' }),
      'null exp': signed(head, { ...good, exp: null }),
      'missing jti': signed(head, withoutJti),
      'missing sub': signed(head, withoutSub),
      'null jti': signed(head, { ...good, jti: null }),
      'a sub that is a list': signed(head, { ...good, sub: ['ada'] }),
      'missing iat': signed(head, withoutIat),
      'other audience': signed(head, { ...good, aud: 'other' }),
      'other issuer': signed(head, { ...good, iss: 'other' }),
      'not yet': signed(head, { ...good, nbf: 4_000_000_000 }),
      'a payload that is a list': signed(head, [good]),
      'a payload that is a text': signed(head, 'x'),
      padding: `${signed(head, good)}=`,
      'padding inside': signed(head, good).replace('.', '=.'),
      'a space': ` ${signed(head, good)}`,
      'a line break': `${signed(head, good)}\n`,
      'another spelling of the signature': respelled(signed(head, good)),
      '5 KB': signed(head, { ...good, x: 'x'.repeat(5000) }),
      'a 6-byte key': hmacBy('123456', head),
      'no key': hmacBy('', head),
      empty: '',
      dots: '..',
    }
    for (const [name, token] of Object.entries(bad)) {
      expect([name, await codeOf(tokens, token)]).toEqual([name, 'TOKEN_INVALID'])
    }

    function hmacBy(key: string, header: object): string {
      const text = `${part(header)}.${part(good)}`
      return `${text}.${createHmac('sha256', key).update(text).digest('base64url')}`
    }
  })

  /** Changes the unused bits of the last character, so that the text differs but the signature bytes stay the same. */
  function respelled(token: string): string {
    const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    return token.slice(0, -1) + letters[letters.indexOf(token.at(-1) ?? '') + 1]
  }

  it('a foreign or altered token is rejected with TOKEN_INVALID, for any string and any damage', async () => {
    const tokens = await withSecret()
    const { token } = await issue(tokens)
    const damaged = fc
      .tuple(fc.nat(token.length - 1), fc.string({ minLength: 0, maxLength: 3 }))
      .map(([at, text]) => token.slice(0, at) + text + token.slice(at + 1))
      .filter((text) => text !== token)
    const kid = kidOf(token)
    const crafted = fc
      .tuple(fc.jsonValue(), fc.boolean(), fc.jsonValue())
      .map(([header, isHeaderValid, payload]) =>
        signed(isHeaderValid ? { alg: 'HS256', typ: 'JWT', kid } : Object(header), payload),
      )
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.string(), damaged, crafted), async (text) => {
        expect(await codeOf(tokens, text)).toBe('TOKEN_INVALID')
      }),
      { numRuns: roundsOf(300) },
    )
  })
})

describe('revoking', () => {
  it('revokes one token, even for another process and after a restart', async () => {
    const [first, second] = [await inFolder(), await inFolder()]
    const [revoked, kept] = [await issue(first), await issue(first)]
    expect(await codeOf(second, revoked.token)).toBe('valid')
    await second.revoke(revoked.jti)
    for (const tokens of [first, second, await inFolder()]) {
      expect(await codeOf(tokens, revoked.token)).toBe('TOKEN_INVALID')
      expect(await codeOf(tokens, kept.token)).toBe('valid')
    }
  })

  it("works with an operator's secret, and without a folder", async () => {
    for (const tokens of [
      await withSecret(),
      await openTokens({ clock, folder, secret: SECRET }),
    ]) {
      const { token, jti } = await issue(tokens)
      await tokens.revoke(jti)
      expect(await codeOf(tokens, token)).toBe('TOKEN_INVALID')
    }
  })

  it('rejects malformed token ids', async () => {
    const tokens = await inFolder()
    const { token } = await issue(tokens)
    for (const text of [token, '', 'x', '__proto__', '../../etc/passwd']) {
      await expect(tokens.revoke(text)).rejects.toMatchObject({ code: 'TOKEN_ID_MALFORMED' })
    }
  })

  it('forgets the ids of expired tokens', async () => {
    const tokens = await inFolder()
    const ids = [await issue(tokens), await issue(tokens)].map(({ jti }) => jti)
    await tokens.revoke(ids[0] ?? '')
    clock.ms += TOKEN_LIFE_MAX_MS
    await tokens.revoke(ids[1] ?? '')
    const file = JSON.parse(await readFile(join(folder, 'token-revocations.json'), 'utf8'))
    expect(Object.keys(file.revoked)).toEqual([ids[1]])
  })
})

describe('rotating', () => {
  it('signs with a new key, even in another process, and old tokens stay valid', async () => {
    const [first, second] = [await inFolder(), await inFolder()]
    const old = await issue(first)
    const kid = await second.rotate({ dropOld: false })
    const fresh = await issue(first)
    expect(JSON.parse(atob(fresh.token.split('.')[0] ?? '')).kid).toBe(kid)
    for (const tokens of [first, second, await inFolder()]) {
      expect(await codeOf(tokens, old.token)).toBe('valid')
      expect(await codeOf(tokens, fresh.token)).toBe('valid')
    }
  })

  it('revokes every token at once when the old keys are dropped', async () => {
    const [first, second] = [await inFolder(), await inFolder()]
    const old = await issue(first)
    await second.rotate({ dropOld: true })
    expect(await codeOf(first, old.token)).toBe('TOKEN_INVALID')
    expect(await codeOf(first, (await issue(first)).token)).toBe('valid')
  })

  it('revokes a token that is being verified while the old keys are dropped', async () => {
    const tokens = await openTokens({ clock, folder: null, secret: null })
    const { token } = await issue(tokens)
    const verification = codeOf(tokens, token)
    await tokens.rotate({ dropOld: true })
    expect(await Promise.all([codeOf(tokens, token), verification])).toEqual([
      ...['TOKEN_INVALID', 'valid'],
    ])
    expect(await codeOf(tokens, token)).toBe('TOKEN_INVALID')
  })

  it('drops a key when its last token has expired, and rejects more than 16 keys', async () => {
    const tokens = await inFolder()
    for (let count = 1; count < KEYS_MAX; count += 1) await tokens.rotate({ dropOld: false })
    await expect(tokens.rotate({ dropOld: false })).rejects.toMatchObject({ code: 'KEY_RING_FULL' })
    clock.ms += TOKEN_LIFE_MAX_MS
    await tokens.rotate({ dropOld: false })
    const file = JSON.parse(await readFile(join(folder, 'token-keys.json'), 'utf8'))
    expect(file.keys).toHaveLength(2)
  })

  it('rotating is rejected if the operator sets the secret', async () => {
    const rotation = (await withSecret()).rotate({ dropOld: true })
    await expect(rotation).rejects.toMatchObject({ code: 'KEYS_FIXED' })
  })
})

describe('opening', () => {
  it('rejects a secret of less than 32 bytes without quoting it', async () => {
    const open = openTokens({ clock, folder: null, secret: '123456' })
    await expect(open).rejects.toMatchObject({
      code: 'SECRET_TOO_SHORT',
      message: 'the secret that signs tokens has 6 bytes; it needs at least 32',
    })
    await openTokens({ clock, folder: null, secret: 'é'.repeat(16) })
  })

  it('stores keys in a file that only the owner can read, and keeps them across restarts', async () => {
    const { token } = await issue(await inFolder())
    expect(await codeOf(await inFolder(), token)).toBe('valid')
    expect((await stat(join(folder, 'token-keys.json'))).mode & 0o777).toBe(0o600)
  })

  it('creates only one key if two processes start at once', async () => {
    const [one, two] = await Promise.all([inFolder(), inFolder()])
    expect(await codeOf(one, (await issue(two)).token)).toBe('valid')
  })

  it('rejects damaged files', async () => {
    await inFolder()
    const path = join(folder, 'token-keys.json')
    const text = await readFile(path, 'utf8')
    for (const damaged of ['', '{}', '{"keys":[{}]}', text.replace(/"kid": "./, '"kid": "x')]) {
      await writeFile(path, damaged)
      await expect(inFolder()).rejects.toMatchObject({ code: 'FILE_DAMAGED' })
    }
    await writeFile(path, text)
    await writeFile(join(folder, 'token-revocations.json'), '{"revoked":[]}')
    await expect(inFolder()).rejects.toMatchObject({ code: 'FILE_DAMAGED' })
  })
})
