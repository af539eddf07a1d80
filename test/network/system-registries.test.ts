// A network and its registries are themselves resources that processors, queries and relationships can read.
import { expect, it } from 'vitest'
import { type GatewayNode, gateway, networkOf } from '../support/gateway.ts'

const SYSTEM = 'org.hyperledger.composer.system'
const MODEL = `namespace org.test
abstract asset Base identified by id { o String id }
asset Thing extends Base { --> ${SYSTEM}.Network network optional --> ${SYSTEM}.AssetRegistry registry optional }
participant Person identified by name { o String name }
@returns(String)
transaction Ask { o String code --> ${SYSTEM}.AssetRegistry registry optional }`
const MORE = `${MODEL}
asset Other extends Base { }`
const LIB = `
/** @param {org.test.Ask} tx the transaction
 *  @transaction */
async function ask(tx) { return JSON.stringify(await (0, eval)('(async (tx) => {' + tx.code + '})')(tx)) }`
const KINDS = {
  Network: 'Asset',
  AssetRegistry: 'Asset',
  ParticipantRegistry: 'Asset',
  TransactionRegistry: 'Asset',
  Registry: 'Asset',
  Asset: 'Asset',
  HistorianRecord: 'Asset',
  Identity: 'Asset',
  NetworkAdmin: 'Participant',
  Participant: 'Participant',
  AddAsset: 'Transaction',
  IssueIdentity: 'Transaction',
  StartBusinessNetwork: 'Transaction',
  Transaction: 'Transaction',
}
/** Abstract types, which have no registry, as in Composer. */
const ABSTRACT = new Set(['Asset', 'Participant', 'Registry', 'Transaction'])
const QUERIES = `${Object.keys(KINDS)
  .map((name) => `query all${name} { description: "d" statement: SELECT ${SYSTEM}.${name} }`)
  .join('\n')}
query network { description: "d" statement: SELECT ${SYSTEM}.Network WHERE (networkId == _$id) }
query byName { description: "d" statement: SELECT ${SYSTEM}.AssetRegistry
  WHERE (name >= "Asset registry for org.test.P" AND system == false) ORDER BY [registryId DESC] LIMIT 1 }`
const files = { 'lib/ask.js': LIB, 'queries.qry': QUERIES }
const definition = networkOf(MODEL, files)

const NETWORK = { $class: `${SYSTEM}.Network`, networkId: 'test-network', runtimeVersion: '0.0.0' }
const registry = (kind: string, type: string) => ({
  $class: `${SYSTEM}.${kind}Registry`,
  registryId: `org.test.${type}`,
  name: `${kind} registry for org.test.${type}`,
  type: kind,
  system: false,
})

async function started() {
  const node = await gateway({ deploy: [definition] })
  await node.send('POST', '/api/Person', { name: 'ann' })
  const thing = { id: '1', network: 'test-network', registry: 'org.test.Thing' }
  expect((await node.send('POST', '/api/Thing', thing)).status).toBe(200)
  return node
}
async function ask(node: GatewayNode, code: string, more: object = {}, headers = {}) {
  const { status, json } = await node.send('POST', '/api/Ask', { code, ...more }, headers)
  return status === 200 ? JSON.parse(json) : [status, json.error.code]
}

it('lets processors and queries read the network and the registries of its types', async () => {
  const node = await started()
  for (const [name, expected] of [
    ['Network', [NETWORK]],
    ['AssetRegistry', [registry('Asset', 'Thing')]],
    ['ParticipantRegistry', [registry('Participant', 'Person')]],
    ['TransactionRegistry', [registry('Transaction', 'Ask')]],
  ] as const) {
    const registries = `await getAssetRegistry('${SYSTEM}.${name}')`
    expect(
      await ask(node, `return (await (${registries}).getAll()).map((one) => one.toJSON())`),
    ).toEqual(expected)
    expect(await ask(node, `return (${registries}).resolveAll()`)).toEqual(expected)
    const { status, json, headers } = await node.send('GET', `/api/queries/all${name}`)
    expect([status, json, headers.get('x-total-count')]).toEqual([
      200,
      expected,
      `${expected.length}`,
    ])
  }
  const networks = `(await getAssetRegistry('${SYSTEM}.Network'))`
  expect(await ask(node, `return (await ${networks}.get('test-network')).runtimeVersion`)).toBe(
    '0.0.0',
  )
  expect(
    await ask(
      node,
      `return [await ${networks}.exists('test-network'), await ${networks}.exists('x')]`,
    ),
  ).toEqual([true, false])
  expect(await ask(node, `return ${networks}.resolve('test-network')`)).toEqual(NETWORK)
  expect((await node.send('GET', '/api/queries/network?id=test-network')).json).toEqual([NETWORK])
  expect((await node.send('GET', '/api/queries/network?id=x')).json).toEqual([])
  expect((await node.send('GET', '/api/queries/byName')).json).toEqual([registry('Asset', 'Thing')])
})

it('lets processors and queries read all resources of every system type', async () => {
  const node = await started()
  for (const [name, kind] of Object.entries(KINDS)) {
    expect((await node.send('GET', `/api/queries/all${name}`)).status).toBe(200)
    if (ABSTRACT.has(name)) {
      const code = `return get${kind}Registry('${SYSTEM}.${name}')`
      expect([name, await ask(node, code)]).toEqual([name, [422, 'TRANSACTION_FAILED']])
      continue
    }
    const counts = `const registry = await get${kind}Registry('${SYSTEM}.${name}')
      const lists = [await registry.getAll(), await registry.resolveAll(), await query('all${name}')]
      return lists.map((list) => list.length)`
    const [all, resolved, queried] = await ask(node, counts)
    expect([name, resolved, queried]).toEqual([name, all, all])
    expect(all).toBeTypeOf('number')
  }
})

it('resolves relationships to registries in processors, transactions and replies', async () => {
  const node = await started()
  const thing = `(await (await getAssetRegistry('org.test.Thing')).get('1'))`
  const name = 'Asset registry for org.test.Thing'
  expect(
    await ask(node, `return [${thing}.network.runtimeVersion, ${thing}.registry.name]`),
  ).toEqual(['0.0.0', name])
  expect(await ask(node, 'return tx.registry.name', { registry: 'org.test.Thing' })).toBe(name)
  const { json } = await node.send('GET', '/api/Thing?filter={"include":"resolve"}')
  expect(json).toEqual([
    { $class: 'org.test.Thing', id: '1', network: NETWORK, registry: registry('Asset', 'Thing') },
  ])
})

it('rejects changes of registries and applies access rules to reads', async () => {
  const node = await started()
  for (const name of ['Network', 'AssetRegistry', 'Identity', 'HistorianRecord']) {
    const change = `const registry = await getAssetRegistry('${SYSTEM}.${name}')
      const [one] = await registry.getAll()
      await registry.remove(one?.getIdentifier() ?? 'x')`
    expect(await ask(node, change)).toEqual([422, 'TRANSACTION_FAILED'])
  }
  const rules = `
    rule Own { description: "d" participant: "org.test.Person" operation: ALL resource: "org.test.**" action: ALLOW }
    rule Record { description: "d" participant: "org.test.Person" operation: CREATE resource: "${SYSTEM}.HistorianRecord" action: ALLOW }
    rule Admin { description: "d" participant: "${SYSTEM}.NetworkAdmin" operation: ALL resource: "**" action: ALLOW }`
  const strict = await gateway({
    deploy: [networkOf(MODEL, { ...files, 'permissions.acl': rules })],
  })
  await strict.send('POST', '/api/Person', { name: 'ann' })
  const identity = { participant: 'org.test.Person#ann', userID: 'ann' }
  const { json } = await strict.send('POST', '/api/system/identities/issue', identity)
  const headers = { authorization: `Bearer ${json.userSecret}` }
  for (const name of ['Network', 'AssetRegistry']) {
    const all = `return (await (await getAssetRegistry('${SYSTEM}.${name}')).getAll()).length`
    expect(await ask(strict, all, {}, headers)).toBe(0)
    const found = await strict.send('GET', `/api/queries/all${name}`, undefined, headers)
    expect([found.status, found.json]).toEqual([200, []])
  }
})

it('lists the registries of the upgraded model after an upgrade, and verification gives the same result', async () => {
  const node = await started()
  const names = `return (await query('allAssetRegistry')).map((one) => one.registryId)`
  expect(await ask(node, names)).toEqual(['org.test.Thing'])
  await node.networks.upgrade(networkOf(MORE, files, { version: '1.0.1' }), [])
  expect(await ask(node, names)).toEqual(['org.test.Other', 'org.test.Thing'])
  const network = `return (await query('allNetwork')).map((one) => one.toJSON())`
  expect(await ask(node, network)).toEqual([NETWORK])
  // Verification compares only writes, so the processor writes the name that it read.
  const write = `const [first] = await query('allAssetRegistry')
    const thing = getFactory().newResource('org.test', 'Thing', first.name)
    await (await getAssetRegistry('org.test.Thing')).add(thing)
    return thing.id`
  expect(await ask(node, write)).toBe('Asset registry for org.test.Other')
  const { finding } = await node.networks.verify('test-network', () => {})
  expect(finding).toBeNull()
})

it('the OpenAPI document describes the types that queries can select', async () => {
  const node = await started()
  const { text, json } = await node.send('GET', '/explorer/openapi.json')
  const references = [...text.matchAll(/"#\/components\/schemas\/([^"]+)"/g)].map(
    ([, name]) => name,
  )
  expect(references).toContain(`${SYSTEM}.Network`)
  for (const name of references) expect(json.components.schemas).toHaveProperty([`${name}`])
})
