// Lists contain everything that the caller may read, in one order, however large the resources are.
import { expect, it } from 'vitest'
import { type GatewayNode, gateway, networkOf } from '../support/gateway.ts'

const MODEL = `namespace org.test
asset Thing identified by id { o String id o Double amount default=0 o String text optional --> Thing part optional }
participant Person identified by name { o String name }
@returns(String[])
@commit(false)
transaction Ask { o String code }`

const LIB = `
const kept = []
/** Keeps so much memory that the sandbox can evaluate two resources at once, but not eight. */
function keep({ id }) { kept.push((id === 'big' ? '#' : '-').repeat(id === 'big' ? 1e8 : 1.5e7)); return true }
/** @param {org.test.Ask} tx the transaction
 *  @transaction */
async function ask({ code }) { return (0, eval)('(async () => {' + code + '})')() }`

const rule = (name: string, participant: string, resource: string, rest: string) =>
  `rule ${name} { description: "" participant: "${participant}" operation: ALL ${resource} ${rest} }\n`
const ALLOW = 'action: ALLOW'
const RULES =
  rule(
    'Kept',
    'org.test.Person',
    'resource(r): "org.test.Thing"',
    `condition: (keep(r)) ${ALLOW}`,
  ) +
  rule('System', 'ANY', 'resource: "org.hyperledger.composer.system.**"', ALLOW) +
  rule('Ask', 'ANY', 'resource: "org.test.Ask"', ALLOW) +
  rule('Admin', 'org.hyperledger.composer.system.NetworkAdmin', 'resource: "**"', ALLOW)

const QUERIES =
  'query all { description: "" statement: SELECT org.test.Thing ORDER BY [amount ASC] }'
const definition = networkOf(MODEL, {
  ...{ 'lib/script.js': LIB, 'permissions.acl': RULES, 'queries.qry': QUERIES },
})

async function issued(node: GatewayNode, name: string) {
  await node.send('POST', '/api/Person', { name })
  const participant = `org.test.Person#${name}`
  const body = { participant, userID: name }
  const { json } = await node.send('POST', '/api/system/identities/issue', body)
  return { authorization: `Bearer ${json.userSecret}` }
}

it('lists every readable resource, even if a condition cannot be evaluated for many at once', async () => {
  const node = await gateway({ deploy: [definition], deadlineMs: 20_000 })
  const things = Array.from({ length: 8 }, (_, n) => ({ id: `t${n}` }))
  expect((await node.send('POST', '/api/Thing', things)).status).toBe(200)
  const headers = await issued(node, 'ann')
  const list = await node.send('GET', '/api/Thing', undefined, headers)
  expect([list.json.length, list.headers.get('x-total-count')]).toEqual([8, '8'])
  const code = `return [String((await (await getAssetRegistry('org.test.Thing')).getAll()).length)]`
  expect((await node.send('POST', '/api/Ask', { code }, headers)).json).toEqual(['8'])

  // For this resource, the condition exceeds the memory. A list leaves it out; a transaction must not.
  await node.send('POST', '/api/Thing', { id: 'big' })
  expect((await node.send('GET', '/api/Thing', undefined, headers)).json).toHaveLength(8)
  const failed = await node.send('POST', '/api/Ask', { code }, headers)
  expect([failed.status, failed.json.error.code]).toEqual([500, 'PROCESSOR_MEMORY'])
})

it('stops reading a list when its client has disconnected', async () => {
  const node = await gateway({ deploy: [definition] })
  await node.send('POST', '/api/Person', { name: 'ann' })
  await node.send('POST', '/api/Thing', { id: 'a' })
  const network = node.networks.require('test-network')
  const type = network.definition.model.type('org.test.Thing')
  if (type === null) throw new Error('there is no type Thing')
  const ann = { participant: { type: 'org.test.Person', id: 'ann' }, identity: null }
  expect((await network.list(type, {}, ann, new AbortController().signal)).total).toBe(1)
  await expect(network.list(type, {}, ann, AbortSignal.abort())).rejects.toMatchObject({
    code: 'SEARCH_INTERRUPTED',
  })
})

it('refuses a list with NETWORK_BUSY if 200 requests of the same participant wait for the access rules', async () => {
  const node = await gateway({ deploy: [definition] })
  await node.send('POST', '/api/Person', { name: 'ann' })
  await node.send('POST', '/api/Thing', { id: 'a' })
  const network = node.networks.require('test-network')
  const type = network.definition.model.type('org.test.Thing')
  if (type === null) throw new Error('there is no type Thing')
  const ann = { participant: { type: 'org.test.Person', id: 'ann' }, identity: null }
  const gone = new AbortController()
  const lists = Array.from({ length: 203 }, () => network.list(type, {}, ann, gone.signal))
  const settled = Promise.allSettled(lists)
  // An administrator, for whom the rules have no condition, need not wait.
  expect((await node.send('GET', '/api/Thing')).status).toBe(200)
  await expect(lists[202]).rejects.toMatchObject({ code: 'NETWORK_BUSY' })
  gone.abort()
  expect((await settled).some(({ status }) => status === 'rejected')).toBe(true)
})

it('gives equal resources one order: in lists, in queries, and in transactions before and after a change', async () => {
  const node = await gateway({ deploy: [definition] })
  // By code points, U+FFFD precedes U+1F34E. By UTF-16 units, it follows. The ids are created in another order.
  for (const id of ['\u{1f34e}', 'z', '\ufffd', 'a/b', 'a']) {
    expect((await node.send('POST', '/api/Thing', { id })).status).toBe(200)
  }
  const ids = (things: { id: string }[]) => things.map(({ id }) => id).join()
  const order = 'a,a/b,z,\ufffd,\u{1f34e}'
  expect(ids((await node.send('GET', '/api/Thing')).json)).toBe(order)
  expect(ids((await node.send('GET', '/api/Thing?filter[order]=amount DESC')).json)).toBe(order)
  expect(ids((await node.send('GET', '/api/queries/all')).json)).toBe(order)
  const code = `const things = await getAssetRegistry('org.test.Thing')
    const read = async () => [await things.getAll(), await query('all')].map((list) => list.map(({ id }) => id).join())
    const before = await read()
    await things.update(await things.get('z'))
    await things.remove('a'); await things.add(getFactory().newResource('org.test', 'Thing', 'a'))
    return [...before, ...await read()]`
  expect((await node.send('POST', '/api/Ask', { code })).json).toEqual([order, order, order, order])
})

it('streams a list whose resources together are larger than the longest string', async () => {
  const node = await gateway({ deploy: [definition] })
  const text = 'x'.repeat(9_800_000)
  expect((await node.send('POST', '/api/Thing', { id: 'whole', text })).status).toBe(200)
  const parts = Array.from({ length: 60 }, (_, n) => ({ id: `p${n}`, part: 'whole' }))
  expect((await node.send('POST', '/api/Thing', parts)).status).toBe(200)
  const reply = await fetch(`${node.url}/api/Thing?filter[include]=resolve&filter[offset]=0`)
  expect([reply.status, reply.headers.get('x-total-count')]).toEqual([200, '61'])
  await reply.body?.cancel()
})

it('refuses to resolve more than 16 Mi characters in one resource', async () => {
  const node = await gateway({ deploy: [definition] })
  const text = 'x'.repeat(9_000_000)
  const chain = ['c', 'b', 'a'].map((id, n) => ({ id, text, ...(n > 0 && { part: 'cba'[n - 1] }) }))
  for (const each of chain) expect((await node.send('POST', '/api/Thing', each)).status).toBe(200)
  expect((await node.send('GET', '/api/Thing/b?filter[include]=resolve')).status).toBe(200)
  for (const path of ['/api/Thing/a', '/api/Thing']) {
    const refused = await node.send('GET', `${path}?filter[include]=resolve`)
    expect([refused.status, refused.json.error.code]).toEqual([400, 'FILTER_INVALID'])
  }
})
