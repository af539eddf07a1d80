import { expect, it } from 'vitest'
import { parseRules } from '../language/rule-parser.ts'
import { Findings, formatFinding } from '../language/source.ts'
import { Model, type TypeDeclaration } from '../model/model.ts'
import {
  type AccessContext,
  AccessControl,
  type ConditionEvaluator,
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

const base = typeOf('asset', 'org.base.Base')
const account = typeOf('asset', 'org.base.bank.Account', base)
const near = typeOf('asset', 'org.basement.Near')
const person = typeOf('participant', 'org.test.Person')
const boss = typeOf('participant', 'org.test.Boss', person)
const move = typeOf('transaction', 'org.test.Move')
const types = [base, account, near, person, boss, move]
const model = new Model(new Map(types.map((type) => [type.qualifiedName, type])))

/** Parses and checks rules, and returns them with the findings. */
function rulesOf(text: string) {
  const file = { path: 'permissions.acl', text }
  const findings = new Findings()
  const rules = checkRules(parseRules(file, findings), model, findings, (path) => ({
    ...file,
    path,
  }))
  return { rules, found: findings.sorted().map(formatFinding) }
}

const rule = (name: string, parts: Record<string, string>) =>
  `rule ${name} { description: "" ${Object.entries({
    ...{ participant: '"ANY"', operation: 'ALL', resource: '"**"', action: 'ALLOW' },
    ...parts,
  })
    .sort(([a], [b]) => ORDER.indexOf(a) - ORDER.indexOf(b))
    .map(([part, value]) => `${part}: ${value}`)
    .join(' ')} }\n`
const ORDER = ['participant', 'operation', 'resource', 'transaction', 'condition', 'action']

const ann: AccessContext = { participant: { type: person, id: 'ann' }, transaction: null }
const inMove = { ...ann, transaction: { type: move, id: 't1' } }
const subjectOf = (type: TypeDeclaration, id: string): Subject => ({
  ...{ type, id },
  content: () => null,
})
const ofBase = subjectOf(base, 'h')
const ofAccount = subjectOf(account, 'a')
const ofNear = subjectOf(near, 'n')
const never: ConditionEvaluator = () => Promise.reject(new Error('unexpected evaluation'))

const decided = (
  text: string,
  context: AccessContext = ann,
  evaluate = never,
  subjects: readonly Subject[] = [ofBase, ofAccount, ofNear],
) => new AccessControl(rulesOf(text).rules).decide('READ', subjects, context, evaluate)

it('allows everything if there are no rules, and denies if no rule matches', async () => {
  const open = new AccessControl(null)
  expect(await open.decide('DELETE', [ofBase, ofNear], ann, never)).toEqual([true, true])
  expect(open.allowsAll('DELETE', base, ann)).toBe(true)
  const closed = new AccessControl([])
  expect(await closed.decide('READ', [ofBase, ofNear], ann, never)).toEqual([false, false])
  expect(closed.allowsAll('READ', base, ann)).toBe(false)
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
  ['"org.base.Base"', [true, true, false]],
  ['"org.base.bank.Account"', [false, true, false]],
  ['"org.base.Base#a"', [false, true, false]],
  ['"org.base.Base#n"', [false, false, false]],
  ['"org.basement.Near#n"', [false, false, true]],
])(
  'applies a rule for the resource %s to the types Base, Account and Near: %j',
  async (resource, expected) => {
    expect(await decided(rule('R', { resource }))).toEqual(expected)
  },
)

it.each<[string, string, boolean]>([
  ['"ANY"', 'ann', true],
  ['"org.test.Person"', 'ann', true],
  ['"org.test.Person#ann"', 'ann', true],
  ['"org.test.Person#ann"', 'bob', false],
  ['"org.test.Boss"', 'ann', false],
  ['"org.test.*"', 'ann', true],
])(
  'applies a rule for the participant %s to the person %s: %s',
  async (participant, id, expected) => {
    const context = { ...ann, participant: { type: person, id } }
    expect(await decided(rule('R', { participant }), context, never, [ofBase])).toEqual([expected])
    const other = { ...ann, participant: { type: boss, id } }
    const isBoss = participant === '"org.test.Boss"'
    expect(await decided(rule('R', { participant }), other, never, [ofBase])).toEqual([
      expected || isBoss,
    ])
  },
)

it('applies a rule for a transaction only while a transaction of its type is processed', async () => {
  const within = rule('R', { transaction: '"org.test.Move"' })
  expect(await decided(within, ann, never, [ofBase])).toEqual([false])
  expect(await decided(within, inMove, never, [ofBase])).toEqual([true])
  const other = { ...ann, transaction: { type: base, id: 't1' } }
  expect(await decided(within, other, never, [ofBase])).toEqual([false])
  expect(await decided(rule('R', {}), inMove, never, [ofBase])).toEqual([true])
})

it('decides about each instance by the first rule that matches the instance', async () => {
  const deny = rule('D', { resource: '"org.base.Base#h"', action: 'DENY' })
  const allow = rule('A', { resource: '"org.base.**"' })
  expect(await decided(deny + allow)).toEqual([false, true, false])
  expect(await decided(allow + deny)).toEqual([true, true, false])
})

it('evaluates a condition once, for the instances about which no earlier rule has decided', async () => {
  const evaluations: [string, string[]][] = []
  const evaluate: ConditionEvaluator = async ({ name }, subjects) => {
    evaluations.push([name, subjects.map(({ id }) => id)])
    return subjects.map(({ id }) => id === 'h')
  }
  const first = rule('F', { resource: '"org.base.bank.Account"', action: 'DENY' })
  const some = rule('S', { condition: '(some)' })
  const rest = rule('T', { resource: '"org.base.**"', condition: '(rest)' })
  const last = rule('L', { resource: '"org.base.**"', condition: '(last)' })
  expect(await decided(first + some + rest + last, ann, evaluate)).toEqual([true, false, false])
  expect(evaluations).toEqual([['S', ['h', 'n']]])
  evaluations.length = 0
  const rules = some + rest + rule('E', {}) + last
  expect(await decided(rules, ann, evaluate)).toEqual([true, true, true])
  expect(evaluations).toEqual([
    ['S', ['h', 'a', 'n']],
    ['T', ['a']],
  ])
})

it('treats a condition that throws as false in an ALLOW rule and as true in a DENY rule', async () => {
  const evaluate: ConditionEvaluator = async () => [true, false, null]
  const condition = '(x)'
  expect(await decided(rule('A', { condition }), ann, evaluate)).toEqual([true, false, false])
  const denied = rule('D', { condition, action: 'DENY' }) + rule('A', {})
  expect(await decided(denied, ann, evaluate)).toEqual([false, true, false])
})

it('decides about all instances of a type at once, or returns null if the decision depends on the instance', () => {
  const all = (text: string, type = base, context: AccessContext = ann) =>
    new AccessControl(rulesOf(text).rules).allowsAll('READ', type, context)
  const allow = rule('A', {})
  const deny = rule('D', { action: 'DENY' })
  const one = { resource: '"org.base.Base#h"' }
  expect([all(allow + deny), all(deny + allow)]).toEqual([true, false])
  expect(all(rule('A', { operation: 'CREATE' }) + deny)).toBe(false)
  expect(all(rule('A', { transaction: '"org.test.Move"' }) + deny)).toBe(false)
  expect(all(rule('A', { transaction: '"org.test.Move"' }) + deny, base, inMove)).toBe(true)
  expect(all(rule('O', one) + deny)).toBeNull()
  expect(all(rule('O', one) + deny, near)).toBe(false)
  expect(all(rule('C', { condition: '(x)' }) + deny)).toBeNull()
  expect(all(rule('C', { resource: '"org.base.**"', condition: '(x)' }) + deny, near)).toBe(false)
  expect(all(rule('N', { resource: '"org.base.*"' }), account)).toBe(false)
})

it('reports rules that refer to unknown types or namespaces, or to types of the wrong kind', () => {
  const found = (parts: Record<string, string>) => rulesOf(rule('R', parts)).found
  const wrong: [Record<string, string>, string][] = [
    [{ resource: '"org.nowhere.*"' }, 'there is no namespace org.nowhere'],
    [{ resource: '"org.bas.**"' }, 'there is no namespace org.bas'],
    [{ resource: '"org.test.None"' }, 'there is no type org.test.None'],
    [{ participant: '"org.base.Base"' }, 'org.base.Base has the kind asset; expected participant'],
    [{ participant: '"org.test.None"' }, 'there is no type org.test.None'],
    [{ transaction: '"org.base.Base"' }, 'org.base.Base has the kind asset; expected transaction'],
    [{ transaction: '"org.nowhere.**"' }, 'there is no namespace org.nowhere'],
    [{ transaction: '"org.test.Move#a"' }, '“org.test.Move#a” is not a valid transaction'],
  ]
  for (const [parts, message] of wrong) {
    expect(found(parts)).toEqual([expect.stringMatching(/^permissions\.acl:1:\d+: error: /)])
    expect(found(parts)[0]).toContain(message)
  }
  const valid: Record<string, string>[] = [
    ...[{ resource: '"org.**"' }, { resource: '"org.base.*"' }, { resource: '"org.test.Move"' }],
    ...[{ participant: '"org.test.Boss"' }, { transaction: '"org.test.Move"' }],
  ]
  for (const parts of valid) expect(found(parts)).toEqual([])
  expect(found({ resource: '"org.*"' })).toHaveLength(1)
  const { rules } = rulesOf(rule('R', { condition: '(a && b)', operation: 'READ, DELETE' }))
  expect(rules).toMatchObject([
    {
      name: 'R',
      condition: expect.stringContaining('\na && b\n'),
      operations: ['READ', 'DELETE'],
      allows: true,
    },
  ])
  expect(rulesOf(rule('R', {})).rules[0]?.condition).toBeNull()
})
