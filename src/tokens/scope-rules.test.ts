import { expect, it } from 'vitest'
import { grantedScope, parseScopeRules } from './scope-rules.ts'

const rule = (members: object) => ({
  ...{ claim: 'groups', value: 'staff', scopes: ['ledger:read'] },
  ...members,
})

it.each([
  ['', /^is not JSON$/],
  ['{}', /^is not a list of at most 1000 rules$/],
  [JSON.stringify(new Array(1_001).fill(rule({}))), /^is not a list of at most 1000 rules$/],
  ['[7]', /^rule 1: it is not an object$/],
  [
    JSON.stringify([rule({}), rule({ scopes: ['ledger:write'] })]),
    /^rule 2: unknown scope "ledger:write"; use [^\n]+$/,
  ],
  [JSON.stringify([rule({ scopes: [] })]), /^rule 1: a token needs at least one scope$/],
  [JSON.stringify([rule({ scopes: 'ledger:read' })]), /^rule 1: scopes must be a list of texts$/],
  [JSON.stringify([rule({ value: 7 })]), /^rule 1: claim and value must be texts$/],
  [JSON.stringify([rule({ issuer: 7 })]), /^rule 1: issuer must be a text$/],
  [JSON.stringify([rule({ role: 'x' })]), /^rule 1: unknown member "role"; use issuer, claim, /],
])('refuses the rules %s with one line', (text, message) => {
  expect(() => parseScopeRules(text)).toThrow(message)
})

it.each([
  ['a text', { groups: 'staff' }, 'ledger:read'],
  ['an element of a list', { groups: ['x', 'staff', 7] }, 'ledger:read'],
  ['not a word of a text', { groups: 'no staff' }, ''],
  ['not a part of an element', { groups: ['no staff', 'staffs'] }, ''],
  ['not an inherited member', {}, ''],
])('a rule matches a value that is %s', (_what, claims, scope) => {
  const rules = parseScopeRules(JSON.stringify([rule({})]))
  expect(grantedScope(claims, { issuer: 'i', claim: 'scope', rules })).toBe(scope)
})

it('finds claims at a path, the words of scopes, and rules of one issuer', () => {
  const rules = parseScopeRules(
    JSON.stringify([
      rule({ claim: 'a.b', value: 'x', scopes: ['db:1:read'] }),
      rule({ claim: 'https://x.example/roles', value: 'x', scopes: ['db:2:read'] }),
      rule({ claim: 'scope', value: 'fruit', scopes: ['db:3:read'] }),
      rule({ issuer: 'other', claim: 'a.b', value: 'x', scopes: ['db:4:read'] }),
      rule({ claim: 'a.constructor.name', value: 'Object', scopes: ['db:5:read'] }),
    ]),
  )
  const claims = { a: { b: ['x'] }, 'https://x.example/roles': 'x', scope: 'openid fruit' }
  const given = { issuer: 'i', claim: 'scope', rules }
  expect(grantedScope(claims, given)).toBe('openid fruit db:1:read db:2:read db:3:read')
  // A name with a space is not two scopes.
  const roles = { roles: ['ledger:read', 'x db:*:admin'] }
  expect(grantedScope(roles, { ...given, claim: 'roles' })).toBe('ledger:read')
})
