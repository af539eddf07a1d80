// Access rules, tested over HTTP. The sandbox evaluates their conditions.
import { expect, it } from 'vitest'
import { type GatewayNode, gateway, networkOf } from '../support/gateway.ts'

const BASE = `namespace org.base
abstract asset Held identified by id { o String id }`
const MODEL = `namespace org.test
import org.base.Held
asset Account extends Held { o Double balance default=0 o String state default="open" --> Person owner }
asset Note identified by id { o String id o String text --> Account account optional }
participant Person identified by name { o String name o String role default="user" }
transaction Move { --> Account from --> Account to o Double amount }
transaction Peek { o String id }
@returns(String[])
@commit(false)
transaction See { }
event Moved { --> Person owner o Double amount }`
const LIB = `
/** @param {org.test.Move} tx the transaction
 *  @transaction */
async function move(tx) {
  const accounts = await getAssetRegistry('org.test.Account')
  tx.from.balance -= tx.amount
  tx.to.balance += tx.amount
  await accounts.updateAll([tx.from, tx.to])
}
/** @param {org.test.Peek} tx the transaction
 *  @transaction */
async function peek(tx) { await (await getAssetRegistry('org.test.Account')).get(tx.id) }
/** @param {org.test.See} tx the transaction
 *  @transaction */
async function see(tx) {
  const registry = await getAssetRegistry('org.test.Account')
  const ids = (list) => list.map((each) => each.getIdentifier()).join('')
  const named = getCurrentParticipant().getIdentifier() + getCurrentParticipant().role
  return [ids(await registry.getAll()), ids(await query('all')), String(await registry.exists('b')), named]
}
function isOwner(held, person) { return held.owner.getIdentifier() === person.getIdentifier() }`
const QUERIES = `query all { description: "all" statement: SELECT org.test.Account ORDER BY [id ASC] }`

const rule = (name: string, parts: Record<string, string>) =>
  `rule ${name} { description: "${name}" ${Object.entries(parts)
    .map(([part, text]) => `${part}: ${text}`)
    .join(' ')} }\n`
const SYSTEM = rule('System', {
  participant: '"ANY"',
  operation: 'ALL',
  resource: '"org.hyperledger.composer.system.**"',
  action: 'ALLOW',
})
const ADMIN = rule('Admin', {
  participant: '"org.hyperledger.composer.system.NetworkAdmin"',
  operation: 'ALL',
  resource: '"**"',
  action: 'ALLOW',
})
const SUBMIT = ['Move', 'Peek', 'See']
  .map((name) =>
    rule(`Submit${name}`, {
      participant: '"org.test.Person"',
      operation: 'CREATE',
      resource: `"org.test.${name}"`,
      action: 'ALLOW',
    }),
  )
  .join('')
const PEOPLE = rule('People', {
  participant: '"ANY"',
  operation: 'READ',
  resource: '"org.test.Person"',
  action: 'ALLOW',
})
const ofOwner = (operation: string, extra: Record<string, string> = {}) =>
  rule(`Owner${operation.replaceAll(/\W/g, '')}`, {
    'participant(p)': '"org.test.Person"',
    operation,
    'resource(a)': '"org.test.Account"',
    ...extra,
    condition: '(isOwner(a, p))',
    action: 'ALLOW',
  })

/** Starts a network with these rules, three accounts and participants. Returns functions that send requests. */
async function started(rules: string, deadlineMs = 5_000) {
  const files = {
    'models/base.cto': BASE,
    'lib/logic.js': LIB,
    'queries.qry': QUERIES,
    'permissions.acl': rules + SUBMIT + PEOPLE + SYSTEM + ADMIN,
  }
  const node = await gateway({ deploy: [networkOf(MODEL, files)], deadlineMs })
  const people = [{ name: 'ann' }, { name: 'bob', role: 'boss' }]
  expect((await node.send('POST', '/api/Person', people)).status).toBe(200)
  const accounts = [
    { id: 'a', owner: 'ann', balance: 10 },
    { id: 'b', owner: 'bob', balance: 10 },
    { id: 'c', owner: 'ann' },
  ]
  expect((await node.send('POST', '/api/Account', accounts)).status).toBe(200)
  return { node, ann: await bearer(node, 'ann'), bob: await bearer(node, 'bob') }
}

async function bearer(node: GatewayNode, name: string) {
  const participant = `resource:org.test.Person#${name}`
  const issued = await node.send('POST', '/api/system/identities/issue', {
    participant,
    userID: name,
  })
  const authorization = `Bearer ${issued.json.userSecret}`
  return async (method: string, path: string, body?: unknown) => {
    const { status, json } = await node.send(method, `/api/${path}`, body, { authorization })
    return [status, json?.error?.code ?? json] as const
  }
}
const ids = (list: { id: string }[]) => list.map(({ id }) => id)

it('filters lists, counts and queries by access to each resource, and reports an unreadable resource as missing', async () => {
  const { ann, node } = await started(ofOwner('READ'))
  expect(ids((await ann('GET', 'Account'))[1])).toEqual(['a', 'c'])
  expect(ids((await ann('GET', 'queries/all'))[1])).toEqual(['a', 'c'])
  expect(ids((await ann('GET', 'Account?filter[skip]=1&filter[limit]=1'))[1])).toEqual(['c'])
  expect(await ann('GET', 'Account/b')).toEqual([404, 'RESOURCE_NOT_FOUND'])
  expect(await ann('GET', 'Account/none')).toEqual([404, 'RESOURCE_NOT_FOUND'])
  expect((await ann('GET', 'Account/a'))[0]).toBe(200)
  expect(ids((await node.send('GET', '/api/Account')).json)).toEqual(['a', 'b', 'c'])
  expect(await ann('POST', 'See', {})).toEqual([200, ['ac', 'ac', 'false', 'annuser']])
  expect((await ann('POST', 'Peek', { id: 'b' }))[1]).toBe('TRANSACTION_FAILED')
  expect((await ann('POST', 'Peek', { id: 'a' }))[0]).toBe(200)
})

it('rejects changes without a matching rule and changes nothing', async () => {
  const { ann, node } = await started(ofOwner('READ'))
  const denied = [403, 'ACCESS_DENIED']
  expect(await ann('POST', 'Account', { id: 'z', owner: 'ann' })).toEqual(denied)
  expect(await ann('PUT', 'Account/a', { owner: 'ann' })).toEqual(denied)
  expect(await ann('PUT', 'Account/b', { owner: 'ann' })).toEqual([404, 'RESOURCE_NOT_FOUND'])
  expect(await ann('DELETE', 'Account/a')).toEqual(denied)
  expect(await ann('POST', 'Move', { from: 'a', to: 'c', amount: 5 })).toEqual(denied)
  expect((await node.send('GET', '/api/Account/a')).json.balance).toBe(10)
})

it('evaluates an UPDATE rule with the stored resource, not with the new version', async () => {
  const { ann, node } = await started(ofOwner('READ, UPDATE'))
  expect((await ann('PUT', 'Account/a', { owner: 'bob' }))[0]).toBe(200)
  expect(await ann('PUT', 'Account/a', { owner: 'ann' })).toEqual([404, 'RESOURCE_NOT_FOUND'])
  expect((await node.send('GET', '/api/Account/a')).json.owner).toContain('#bob')
})

it('applies a rule with a transaction clause only during such a transaction, and its condition can read the transaction', async () => {
  const within = {
    participant: '"ANY"',
    operation: 'READ, UPDATE',
    resource: '"org.test.Account"',
    'transaction(tx)': '"org.test.Move"',
    condition: '(tx.amount <= 5 && tx.from.owner.role === "user")',
    action: 'ALLOW',
  }
  const { ann } = await started(rule('InMove', within))
  expect(await ann('GET', 'Account/b')).toEqual([404, 'RESOURCE_NOT_FOUND'])
  expect(await ann('PUT', 'Account/a', { owner: 'ann' })).toEqual([404, 'RESOURCE_NOT_FOUND'])
  expect((await ann('POST', 'Move', { from: 'a', to: 'b', amount: 5 }))[0]).toBe(200)
  expect((await ann('POST', 'Move', { from: 'a', to: 'b', amount: 6 }))[1]).toBe(
    'TRANSACTION_FAILED',
  )
  expect((await ann('POST', 'Move', { from: 'b', to: 'a', amount: 1 }))[1]).toBe(
    'TRANSACTION_FAILED',
  )
})

it('applies the first rule that matches, even if it is a DENY before an ALLOW', async () => {
  const closed = {
    participant: '"org.test.Person"',
    operation: 'ALL',
    'resource(a)': '"org.test.Account"',
    condition: '(a.balance > 5)',
    action: 'DENY',
  }
  const { ann } = await started(rule('Rich', closed) + ofOwner('ALL'))
  expect(ids((await ann('GET', 'Account'))[1])).toEqual(['c'])
  expect((await ann('PUT', 'Account/c', { owner: 'ann', balance: 100 }))[0]).toBe(200)
  expect((await ann('GET', 'Account'))[1]).toEqual([])
})

it.each(['(a.nothing.there)', '((() => { for (;;); })())', '(process.exit())', '(a = {}, a.b.c)'])(
  'applies a DENY rule and skips an ALLOW rule if the condition fails: %s',
  async (condition) => {
    const about = {
      participant: '"org.test.Person"',
      operation: 'ALL',
      'resource(a)': '"org.test.Account"',
    }
    const deny = rule('Broken', { ...about, condition, action: 'DENY' })
    const denying = await started(deny + ofOwner('ALL'), 500)
    expect((await denying.ann('GET', 'Account'))[1]).toEqual([])
    expect((await denying.ann('GET', 'Account/a'))[0]).toBe(404)
    const allow = rule('Broken', { ...about, condition, action: 'ALLOW' })
    const allowing = await started(allow + ofOwner('ALL'), 500)
    expect(ids((await allowing.ann('GET', 'Account'))[1])).toEqual(['a', 'c'])
  },
)

it('applies a rule for a namespace to the types declared there, not to their subtypes in other namespaces', async () => {
  const base = {
    participant: '"org.test.Person"',
    operation: 'READ',
    resource: '"org.base.*"',
    action: 'ALLOW',
  }
  const byNamespace = await started(rule('Base', base))
  expect((await byNamespace.ann('GET', 'Account'))[1]).toEqual([])
  const byType = await started(rule('Base', { ...base, resource: '"org.base.Held"' }))
  expect(ids((await byType.ann('GET', 'Account'))[1])).toEqual(['a', 'b', 'c'])
  const own = await started(rule('Own', { ...base, resource: '"org.test.*"' }))
  expect(ids((await own.ann('GET', 'Account'))[1])).toEqual(['a', 'b', 'c'])
})

it('evaluates each condition without the script state that earlier conditions left', async () => {
  const condition =
    '((globalThis.seen = (globalThis.seen || 0) + 1) === 1 || a.getIdentifier() > "a")'
  const about = {
    participant: '"org.test.Person"',
    operation: 'READ',
    'resource(a)': '"org.test.Account"',
  }
  const { ann } = await started(rule('Once', { ...about, condition, action: 'ALLOW' }))
  for (let n = 0; n < 3; n += 1) expect((await ann('GET', 'Account/a'))[0]).toBe(200)
})

it('shows a condition the time of the request or of the transaction, also in a replay', async () => {
  const condition =
    '(isOwner(a, p) && Date.now() === 1800000000000 && new Date().getFullYear() === 2027)'
  const { ann, node } = await started(ofOwner('READ, UPDATE').replace('(isOwner(a, p))', condition))
  expect(ids((await ann('GET', 'Account'))[1])).toEqual(['a', 'c'])
  expect((await ann('POST', 'Move', { from: 'a', to: 'c', amount: 1 }))[0]).toBe(200)
  expect((await node.networks.verify('test-network', () => {})).finding).toBeNull()
})

it('gives a condition the members of a resource that have more than 64 Ki characters', async () => {
  const uses = {
    read: 'n.text.length === 70000',
    has: '"text" in n && n.account === undefined',
    keys: 'Object.keys(n).join() === "id,text"',
    described: 'Object.getOwnPropertyDescriptor(n, "text").value.length === 70000',
    written: '(n.text = "x", n.text === "x" && n.getIdentifier() === "written")',
    caught: '(() => { try { return n.text !== "" } catch (error) { return false } })()',
    text: 'JSON.stringify(n).length > 70000 && n.isResource()',
    unused: 'n.id === "unused" && !("nothing" in n)',
    denied: 'n.text === ""',
  }
  const condition = `({ ${Object.entries(uses).map(([id, use]) => `${id}: () => ${use}`)} }[n.id]())`
  const about = { participant: '"ANY"', operation: 'ALL', 'resource(n)': '"org.test.Note"' }
  const { ann, node } = await started(rule('Long', { ...about, condition, action: 'ALLOW' }))
  const text = 'x'.repeat(70_000)
  const notes = Object.keys(uses).map((id) => ({ id, text }))
  expect((await node.send('POST', '/api/Note', notes)).status).toBe(200)
  for (const { id } of notes) {
    expect([id, (await ann('GET', `Note/${id}`))[0]]).toEqual([id, id === 'denied' ? 404 : 200])
  }
  expect((await ann('GET', 'Note'))[1]).toHaveLength(notes.length - 1)
})
