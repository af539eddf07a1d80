import { expect, it } from 'vitest'
import { parseRules } from '../language/rule-parser.ts'
import { Findings, findingText } from '../language/source.ts'
import { Model, type TypeDeclaration } from '../model/model.ts'
import {
  type AccessContext,
  AccessControl,
  type AskCondition,
  checkRules,
  type Subject,
} from './control.ts'

function typeOf(
  kind: TypeDeclaration['kind'],
  qualifiedName: string,
  superType: TypeDeclaration | null = null,
): TypeDeclaration {
  const dot = qualifiedName.lastIndexOf('.')
  return {
    ...{ kind, qualifiedName, superType, abstract: false, identifier: 'id', decorators: [] },
    ...{ namespace: qualifiedName.slice(0, dot), name: qualifiedName.slice(dot + 1) },
    ...{ properties: new Map(), values: new Set<string>() },
  }
}

const held = typeOf('asset', 'org.base.Held')
const account = typeOf('asset', 'org.base.bank.Account', held)
const near = typeOf('asset', 'org.basement.Near')
const person = typeOf('participant', 'org.test.Person')
const boss = typeOf('participant', 'org.test.Boss', person)
const move = typeOf('transaction', 'org.test.Move')
const types = [held, account, near, person, boss, move]
const model = new Model(new Map(types.map((type) => [type.qualifiedName, type])))

/** The rules that `text` gives, and what is wrong with it. */
function rulesOf(text: string) {
  const file = { path: 'permissions.acl', text }
  const findings = new Findings()
  const rules = checkRules(parseRules(file, findings), model, findings, (path) => ({
    ...file,
    path,
  }))
  return { rules, found: findings.sorted().map(findingText) }
}

const rule = (name: string, parts: Record<string, string>) =>
  `rule ${name} { description: "" ${Object.entries({
    ...{ participant: '"ANY"', operation: 'ALL', resource: '"**"', action: 'ALLOW' },
    ...parts,
  })
    .sort(([one], [other]) => ORDER.indexOf(one) - ORDER.indexOf(other))
    .map(([part, value]) => `${part}: ${value}`)
    .join(' ')} }\n`
const ORDER = ['participant', 'operation', 'resource', 'transaction', 'condition', 'action']

const ann: AccessContext = { participant: { type: person, id: 'ann' }, transaction: null }
const inMove = { ...ann, transaction: { type: move, id: 't1' } }
const subjectOf = (type: TypeDeclaration, id: string): Subject => ({
  ...{ type, id },
  content: () => null,
})
const ofHeld = subjectOf(held, 'h')
const ofAccount = subjectOf(account, 'a')
const ofNear = subjectOf(near, 'n')
const never: AskCondition = () => Promise.reject(new Error('nothing is to be asked'))

const decided = (
  text: string,
  context: AccessContext = ann,
  ask = never,
  subjects: readonly Subject[] = [ofHeld, ofAccount, ofNear],
) => new AccessControl(rulesOf(text).rules).decide('READ', subjects, context, ask)

it('without rules all is allowed, with none that match nothing', async () => {
  const open = new AccessControl(null)
  expect(await open.decide('DELETE', [ofHeld, ofNear], ann, never)).toEqual([true, true])
  expect(open.allowsAll('DELETE', held, ann)).toBe(true)
  const closed = new AccessControl([])
  expect(await closed.decide('READ', [ofHeld, ofNear], ann, never)).toEqual([false, false])
  expect(closed.allowsAll('READ', held, ann)).toBe(false)
  expect(await decided(rule('R', { operation: 'CREATE, UPDATE, DELETE' }))).toEqual([
    ...[false, false, false],
  ])
  expect(await decided(rule('R', { operation: 'UPDATE, READ' }))).toEqual([true, true, true])
})

it.each<[string, boolean[]]>([
  ['"**"', [true, true, true]],
  ['"org.base.*"', [true, false, false]],
  ['"org.base.**"', [true, true, false]],
  ['"org.base.bank.*"', [false, true, false]],
  ['"org.base.Held"', [true, true, false]],
  ['"org.base.bank.Account"', [false, true, false]],
  ['"org.base.Held#a"', [false, true, false]],
  ['"org.base.Held#n"', [false, false, false]],
  ['"org.basement.Near#n"', [false, false, true]],
])('a rule about %s is about these', async (resource, expected) => {
  expect(await decided(rule('R', { resource }))).toEqual(expected)
})

it.each<[string, string, boolean]>([
  ['"ANY"', 'ann', true],
  ['"org.test.Person"', 'ann', true],
  ['"org.test.Person#ann"', 'ann', true],
  ['"org.test.Person#ann"', 'bob', false],
  ['"org.test.Boss"', 'ann', false],
  ['"org.test.*"', 'ann', true],
])('a rule for %s holds for %s: %s', async (participant, id, expected) => {
  const context = { ...ann, participant: { type: person, id } }
  expect(await decided(rule('R', { participant }), context, never, [ofHeld])).toEqual([expected])
  const other = { ...ann, participant: { type: boss, id } }
  const isBoss = participant === '"org.test.Boss"'
  expect(await decided(rule('R', { participant }), other, never, [ofHeld])).toEqual([
    expected || isBoss,
  ])
})

it('a rule for a transaction holds while one of that type is processed', async () => {
  const within = rule('R', { transaction: '"org.test.Move"' })
  expect(await decided(within, ann, never, [ofHeld])).toEqual([false])
  expect(await decided(within, inMove, never, [ofHeld])).toEqual([true])
  const other = { ...ann, transaction: { type: held, id: 't1' } }
  expect(await decided(within, other, never, [ofHeld])).toEqual([false])
  expect(await decided(rule('R', {}), inMove, never, [ofHeld])).toEqual([true])
})

it('of several rules the first that matches decides, each instance by itself', async () => {
  const deny = rule('D', { resource: '"org.base.Held#h"', action: 'DENY' })
  const allow = rule('A', { resource: '"org.base.**"' })
  expect(await decided(deny + allow)).toEqual([false, true, false])
  expect(await decided(allow + deny)).toEqual([true, true, false])
})

it('a condition is asked once, of those that no rule before it has decided', async () => {
  const asked: [string, string[]][] = []
  const ask: AskCondition = async (of, subjects) => {
    asked.push([`${of.name} ${of.condition}`, subjects.map(({ id }) => id)])
    return subjects.map(({ id }) => id === 'h')
  }
  const first = rule('F', { resource: '"org.base.bank.Account"', action: 'DENY' })
  const some = rule('S', { condition: '(some)' })
  const rest = rule('T', { resource: '"org.base.**"', condition: '(rest)' })
  const last = rule('L', { resource: '"org.base.**"', condition: '(last)' })
  expect(await decided(first + some + rest + last, ann, ask)).toEqual([true, false, false])
  expect(asked).toEqual([['S some', ['h', 'n']]])
  asked.length = 0
  expect(await decided(some + rest + rule('E', {}) + last, ann, ask)).toEqual([true, true, true])
  expect(asked).toEqual([
    ['S some', ['h', 'a', 'n']],
    ['T rest', ['a']],
  ])
})

it('a condition that throws does not hold in an ALLOW, and holds in a DENY', async () => {
  const ask: AskCondition = async () => [true, false, null]
  const condition = '(x)'
  expect(await decided(rule('A', { condition }), ann, ask)).toEqual([true, false, false])
  const denied = rule('D', { condition, action: 'DENY' }) + rule('A', {})
  expect(await decided(denied, ann, ask)).toEqual([false, true, false])
})

it('says of a whole type what holds for all of it, and that it depends where it does', () => {
  const all = (text: string, type = held, context: AccessContext = ann) =>
    new AccessControl(rulesOf(text).rules).allowsAll('READ', type, context)
  const allow = rule('A', {})
  const deny = rule('D', { action: 'DENY' })
  const one = { resource: '"org.base.Held#h"' }
  expect([all(allow + deny), all(deny + allow)]).toEqual([true, false])
  expect(all(rule('A', { operation: 'CREATE' }) + deny)).toBe(false)
  expect(all(rule('A', { transaction: '"org.test.Move"' }) + deny)).toBe(false)
  expect(all(rule('A', { transaction: '"org.test.Move"' }) + deny, held, inMove)).toBe(true)
  expect(all(rule('O', one) + deny)).toBeNull()
  expect(all(rule('O', one) + deny, near)).toBe(false)
  expect(all(rule('C', { condition: '(x)' }) + deny)).toBeNull()
  expect(all(rule('C', { resource: '"org.base.**"', condition: '(x)' }) + deny, near)).toBe(false)
  expect(all(rule('N', { resource: '"org.base.*"' }), account)).toBe(false)
})

it('rules name types and namespaces that are there, each in its place', () => {
  const found = (parts: Record<string, string>) => rulesOf(rule('R', parts)).found
  const wrong: [Record<string, string>, string][] = [
    [{ resource: '"org.nowhere.*"' }, 'there is no namespace org.nowhere'],
    [{ resource: '"org.bas.**"' }, 'there is no namespace org.bas'],
    [{ resource: '"org.test.None"' }, 'there is no type org.test.None'],
    [{ participant: '"org.base.Held"' }, 'org.base.Held is no participant'],
    [{ participant: '"org.test.None"' }, 'there is no type org.test.None'],
    [{ transaction: '"org.base.Held"' }, 'org.base.Held is no transaction'],
    [{ transaction: '"org.nowhere.**"' }, 'there is no namespace org.nowhere'],
  ]
  for (const [parts, message] of wrong) {
    expect(found(parts)).toEqual([expect.stringMatching(/^permissions\.acl:1:\d+: error: /)])
    expect(found(parts)[0]).toContain(message)
  }
  const taken: Record<string, string>[] = [
    ...[{ resource: '"org.**"' }, { resource: '"org.base.*"' }, { resource: '"org.test.Move"' }],
    ...[{ participant: '"org.test.Boss"' }, { transaction: '"org.test.Move"' }],
  ]
  for (const parts of taken) expect(found(parts)).toEqual([])
  expect(found({ resource: '"org.*"' })).toHaveLength(1)
  const { rules } = rulesOf(rule('R', { condition: '(a && b)', operation: 'READ, DELETE' }))
  expect(rules).toMatchObject([
    { name: 'R', condition: 'a && b', operations: ['READ', 'DELETE'], allows: true },
  ])
  expect(rulesOf(rule('R', {})).rules[0]?.condition).toBeNull()
})
