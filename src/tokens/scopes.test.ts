import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  allows,
  type DatabaseLevel,
  EVERY_SCOPE,
  formatScope,
  NO_GRANT,
  parseGrant,
  scopeClaim,
} from './scopes.ts'

const LEVELS: readonly DatabaseLevel[] = ['read', 'write', 'admin']
const name = fc.oneof(
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }),
  fc.constantFrom('*', ':', 'a:b', 'x:read', '%', '%2A', '%3A', 'a b', '__proto__', '台帳', 'db'),
)

describe('a scope of one database', () => {
  it('covers only this database, whatever characters the names contain', () => {
    fc.assert(
      fc.property(name, name, fc.constantFrom(...LEVELS), (db, other, level) => {
        const grant = parseGrant(scopeClaim([formatScope({ db, level })]))
        expect(allows(grant, { db, level })).toBe(true)
        expect(allows(grant, { db: other, level })).toBe(other === db)
        for (const scope of EVERY_SCOPE.slice(1))
          expect(allows(grant, scope as 'node:sync')).toBe(false)
      }),
    )
  })

  it.each(LEVELS)('with the level %s includes the lower levels, and no higher level', (level) => {
    const grant = parseGrant(scopeClaim([`db:fruit:${level}`]))
    const every = parseGrant(scopeClaim([`db:*:${level}`]))
    for (const [rank, required] of LEVELS.entries()) {
      const expected = rank <= LEVELS.indexOf(level)
      expect(allows(grant, { db: 'fruit', level: required })).toBe(expected)
      expect(allows(every, { db: 'anything', level: required })).toBe(expected)
    }
  })
})

it.each([
  [['db:fruit:read'], 'db:fruit:read'],
  [['db:a:b:read'], 'db:a%3Ab:read'],
  [['db:x:read:read'], 'db:x%3Aread:read'],
  [['db:a%3Ab:read', 'db:a:b:read'], 'db:a%3Ab:read'],
  [['db:%2A:admin'], 'db:%2A:admin'],
  [['db:**:admin'], 'db:%2A%2A:admin'],
  [['db:a b:write', 'ledger:read'], 'db:a%20b:write ledger:read'],
  [['db:台帳:read'], 'db:%E5%8F%B0%E5%B8%B3:read'],
  [EVERY_SCOPE, 'db:*:admin ledger:read node:metrics node:sync node:admin'],
])('the scopes %j become the claim %s', (texts, claim) => {
  expect(scopeClaim(texts)).toBe(claim)
})

it.each([
  ...['', 'db', 'db:', 'db::read', 'db:fruit', 'db:fruit:', 'db:fruit:own', 'DB:fruit:read'],
  ...['db:%zz:read', 'db:%:read', 'ledger:write', 'ledger:read ', 'node:*', '*', 'db:x:read\n'],
])('rejects the scope %j', (text) => {
  expect(() => scopeClaim([text])).toThrow(expect.objectContaining({ code: 'SCOPE_UNKNOWN' }))
})

it('requires at least one scope, and limits their total length', () => {
  expect(() => scopeClaim([])).toThrow(expect.objectContaining({ code: 'SCOPE_UNKNOWN' }))
  const many = Array.from({ length: 200 }, (_, at) => `db:database-${at}:read`)
  expect(() => scopeClaim(many)).toThrow(expect.objectContaining({ code: 'SCOPES_TOO_LONG' }))
  const edge = `db:${'x'.repeat(1_992)}:read`
  expect(scopeClaim([edge])).toHaveLength(2_000)
  expect(() => scopeClaim([edge.replace('x', 'xx')])).toThrow('2000 characters')
})

it('grants no access for malformed claims and unknown scopes', () => {
  for (const claim of [
    undefined,
    null,
    1,
    ['db:*:admin'],
    {},
    '',
    'db:*',
    'db:*:own',
    'db:%zz:read',
  ]) {
    const grant = parseGrant(claim)
    expect(allows(grant, { db: 'fruit', level: 'read' })).toBe(false)
    expect(allows(grant, 'node:admin')).toBe(false)
  }
  expect(allows(parseGrant('db:next:own ledger:read'), 'ledger:read')).toBe(true)
  expect(allows(NO_GRANT, 'ledger:read')).toBe(false)
})
