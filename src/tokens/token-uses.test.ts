import { expect, it } from 'vitest'
import { issueApiToken, openTokens } from './service.ts'
import { TokenUses } from './token-uses.ts'

const used = (jti: string, lastUsed: number | null, expiresAt = 10) => ({
  ...{ jti, subject: 's', audience: 'a', scope: 'db:*:read', issuedAt: 0, expiresAt, lastUsed },
})

it('lists the most recently used token first, without expired tokens', () => {
  const uses = new TokenUses()
  uses.note(used('a', null))
  uses.note(used('b', 1, 5))
  uses.note(used('c', 2))
  uses.note(used('a', 3))
  const seen = uses.list(5).map(({ jti, lastUsed }) => [jti, lastUsed])
  expect(seen).toEqual([
    ['a', 3],
    ['c', 2],
  ])
})

it('remembers 1,000 tokens, and forgets the least recently used token first', () => {
  const uses = new TokenUses()
  for (let n = 0; n < 1_000; n += 1) uses.note(used(`t${n}`, n))
  uses.note(used('t0', 1_000))
  uses.note(used('new', 1_001))
  const jtis = uses.list(0).map(({ jti }) => jti)
  expect([jtis.length, jtis[0], jtis[1]]).toEqual([1_000, 'new', 't0'])
  expect(jtis).not.toContain('t1')
})

it('remembers issued and accepted tokens with their last use and revocation, and no rejected token', async () => {
  const clock = { time: 1_800_000_000_000, now: () => clock.time }
  const tokens = await openTokens({ clock, folder: null, secret: null })
  const grant = { subject: 'reporting', scopes: ['db:fruit:read'], lifeSeconds: 60 }
  const { token, jti } = await issueApiToken(tokens, grant)
  expect(tokens.remembered()).toMatchObject([{ jti, lastUsed: null, isRevoked: false }])
  clock.time += 1_500
  await tokens.verify(token, 'daicho:api')
  expect(tokens.remembered()).toEqual([
    {
      ...{ jti, subject: 'reporting', audience: 'daicho:api', scope: 'db:fruit:read' },
      issuedAt: 1_800_000_000_000,
      expiresAt: 1_800_000_060_000,
      lastUsed: 1_800_000_001_500,
      isRevoked: false,
    },
  ])
  await expect(tokens.verify(`${token.slice(0, -3)}AAA`, 'daicho:api')).rejects.toThrow()
  await tokens.revoke(jti)
  await expect(tokens.verify(token, 'daicho:api')).rejects.toThrow()
  expect(tokens.remembered()).toMatchObject([{ lastUsed: 1_800_000_001_500, isRevoked: true }])
  clock.time += 60_000
  expect(tokens.remembered()).toEqual([])
})
