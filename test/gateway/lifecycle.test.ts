// The entries that a network records, and the recovery of a network from the ledger.
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import type { Json } from '../../src/base/json.ts'
import { readNetwork, requireDefinition, writeArchive } from '../../src/network/index.ts'
import { type GatewayNode, gateway, networkOf, startGateway } from '../support/gateway.ts'
import { startLedgerNode, temporaryFolder, verifyFolder } from '../support/ledger-node.ts'

const MODEL = `namespace org.test
asset Thing identified by id { o String id o Integer size }
participant Person identified by name { o String name }
transaction Move { --> Thing thing }`
const SCRIPT = `/** @param {org.test.Move} move
 * @transaction */
function move() {}`
const SYSTEM = 'org.hyperledger.composer.system'

/** Returns all blocks of the node's chain as lists of entries. */
async function entries({
  ledger,
}: GatewayNode): Promise<{ method: string; db: string; [name: string]: Json }[][]> {
  const blocks: { method: string; db: string }[][] = []
  for await (const page of ledger.reader.blocks(0)) {
    for (const block of page) blocks.push(block.entries.map((text) => JSON.parse(text)))
  }
  return blocks
}

it('records the default network with the first write, in the same block', async () => {
  const node = await gateway()
  expect(await node.ledger.read.databases()).toEqual([])
  expect((await node.send('GET', '/api/Commodity')).json).toEqual([])
  expect((await node.send('GET', '/api/Commodity/x')).status).toBe(404)
  expect((await node.send('GET', '/api/system/historian')).json).toEqual([])
  expect((await node.send('POST', '/api/Trader', { tradeId: '' })).status).toBe(422)
  expect(await entries(node)).toEqual([])
  const trader = { tradeId: 'T1', firstName: 'A', lastName: 'B' }
  expect((await node.send('POST', '/api/Trader', trader)).status).toBe(200)
  expect(await node.ledger.read.databases()).toEqual(['mynetwork'])
  expect(await entries(node)).toHaveLength(1)
})

it('records a change as one block: the transaction, its historian record, then the writes in order', async () => {
  const node = await gateway({ deploy: [networkOf(MODEL, { 'lib/move.js': SCRIPT })] })
  const before = (await entries(node)).length
  await node.send('POST', '/api/Thing', [
    { id: 'a', size: 1 },
    { id: 'b', size: 2 },
  ])
  await node.send('PUT', '/api/Thing/a', { size: 3 })
  await node.send('DELETE', '/api/Thing/b')
  await node.send('POST', '/api/Person', { name: 'p' })
  await node.send('POST', '/api/Move', { thing: 'a' })
  const blocks = (await entries(node)).slice(before)
  const shape = blocks.map((block) =>
    block.map(({ method, item, id }) => {
      const named = String(typeof item === 'object' && item !== null && 'id' in item ? item.id : id)
      return `${method} ${named.replace(SYSTEM, 'system').replace(/[0-9a-f-]{36}/, '*')}`
    }),
  )
  const record = 'create_item system.HistorianRecord#*'
  expect(shape).toEqual([
    [
      'create_item system.AddAsset#*',
      record,
      'create_item org.test.Thing#a',
      'create_item org.test.Thing#b',
    ],
    ['create_item system.UpdateAsset#*', record, 'update_item org.test.Thing#a'],
    ['create_item system.RemoveAsset#*', record, 'delete_item org.test.Thing#b'],
    ['create_item system.AddParticipant#*', record, 'create_item org.test.Person#p'],
    ['create_item org.test.Move#*', record],
  ])
  expect(blocks[0]?.[2]?.item).toEqual({
    id: 'org.test.Thing#a',
    resource: { $class: 'org.test.Thing', id: 'a', size: 1 },
  })
  const { json } = await node.send(
    'GET',
    '/api/system/historian?filter[order]=transactionId DESC&filter[limit]=1',
  )
  const [move] = (await node.send('GET', '/api/Move')).json
  expect(json).toEqual([
    {
      $class: `${SYSTEM}.HistorianRecord`,
      transactionId: move.transactionId,
      transactionType: 'org.test.Move',
      transactionInvoked: `resource:org.test.Move#${move.transactionId}`,
      participantInvoking: `resource:${SYSTEM}.NetworkAdmin#admin`,
      eventsEmitted: [],
      transactionTimestamp: move.timestamp,
    },
  ])
  const resolved = await node.send(
    'GET',
    `/api/system/historian/${move.transactionId}?filter[include]=resolve`,
  )
  expect(resolved.json.transactionInvoked).toMatchObject({ thing: { id: 'a', size: 3 } })
  expect(resolved.json.participantInvoking.participantId).toBe('admin')
})

it('makes the database of a network read-only for the API of the ledger', async () => {
  const folder = temporaryFolder()
  const first = await startGateway({ folder, deploy: [networkOf(MODEL)] })
  await first.send('POST', '/api/Thing', { id: 'a', size: 1 })
  const id = 'org.test.Thing#a'
  await expect(first.ledger.write.updateItem('test-network', id, { x: 1 })).rejects.toMatchObject({
    code: 'OWNED_BY_NETWORK',
  })
  await expect(first.ledger.write.deleteDatabase('test-network')).rejects.toMatchObject({
    code: 'OWNED_BY_NETWORK',
  })
  await expect(
    first.ledger.write.recordChanges([
      { method: 'create_db', db: 'other' },
      { method: 'create_item', db: 'test-network', item: { id: 'z' } },
    ]),
  ).rejects.toMatchObject({ code: 'OWNED_BY_NETWORK' })
  expect(await first.ledger.read.item('test-network', id)).not.toBeNull()
  await first.close()
})

it("returns 409 OWNED_BY_NETWORK for an HTTP change of a network's database", async () => {
  const node = await startLedgerNode()
  node.service.write.ownDatabase('net')
  for (const [method, path, body] of [
    ['POST', '/api/net', undefined],
    ['POST', '/api/net', {}],
    ['POST', '/api/net/x', {}],
    ['PATCH', '/api/net/x', {}],
    ['DELETE', '/api/net/x', undefined],
    ['DELETE', '/api/net', undefined],
  ] as const) {
    const { status, json } = await node.send(method, path, body)
    expect([method, path, status, json.code]).toEqual([method, path, 409, 'OWNED_BY_NETWORK'])
    expect(json.status).toBe(false)
  }
  await node.close()
})

it('restores all resources, networks, identities and records on a new node from a copy of the ledger', async () => {
  const folder = temporaryFolder()
  const copy = join(temporaryFolder(), 'copy')
  const first = await startGateway({ folder, deploy: [networkOf(MODEL)] })
  await first.send(
    'POST',
    '/api/Thing',
    Array.from({ length: 300 }, (_, n) => ({ id: `t${n}`, size: n })),
  )
  await first.send('PATCH', '/api/Thing/t5', { size: -5 })
  await first.send('DELETE', '/api/Thing/t6')
  await first.send('POST', '/api/Person', { name: 'ann' })
  const issue = { participant: 'org.test.Person#ann', userID: 'ann' }
  const { userSecret } = (await first.send('POST', '/api/system/identities/issue', issue)).json
  await first.send('POST', '/api/Move', { thing: 't1' })
  const paths = [
    '/api/Thing',
    '/api/Person',
    '/api/Move',
    '/api/system/historian',
    '/api/system/identities',
    '/explorer/openapi.json',
    '/networks',
  ]
  const all = async (node: GatewayNode) => {
    const texts: string[] = []
    for (const path of paths) texts.push((await node.send('GET', path)).text)
    return texts
  }
  const before = await all(first)
  await first.close()
  cpSync(folder, copy, { recursive: true })
  expect((await verifyFolder(copy)).finding).toBeNull()
  // Like NETWORKS, `deploy` has no effect on an existing network.
  const second = await gateway({ folder: copy, deploy: [networkOf(MODEL)] })
  expect(await all(second)).toEqual(before)
  const headers = { authorization: `Bearer ${userSecret}` }
  expect((await second.send('GET', '/api/system/ping', undefined, headers)).json.participant).toBe(
    'org.test.Person#ann',
  )
})

it('an upgrade fills a new field of a type and of its subtypes, and keeps existing values', async () => {
  const node = await gateway()
  const model = (abstract: string, fields: string) => `namespace org.test
    ${abstract} asset Thing identified by id { o String id ${fields} }
    asset Tool extends Thing {}
    participant Person identified by name { o String name }`
  const send = (method: string, path: string, source: string, version: string) =>
    node.send(method, path, new Uint8Array(networkOf(source, {}, { version }).archive), {
      'content-type': 'application/octet-stream',
    })
  const labels = async () => [
    (await node.send('GET', '/test-network/api/Thing/a')).json.label,
    (await node.send('GET', '/test-network/api/Tool/b')).json.label,
  ]
  await send('POST', '/networks', model('', ''), '1.0.0')
  await node.send('POST', '/test-network/api/Thing', { id: 'a' })
  await node.send('POST', '/test-network/api/Tool', { id: 'b' })
  const labelled = model('', 'o String label')
  const placed = model('', 'o String label o String place')
  const path = '/networks/test-network?default='
  for (const [version, source, value, expected] of [
    ['2.0.0', labelled, 'org.test.Tool.label=x', 422],
    ['2.0.1', labelled, 'Thing.label=new', 200],
    ['2.0.2', placed, 'Thing.label=other&default=Thing.place=here', 200],
  ] as const) {
    const { status } = await send('PUT', path + value, source, version)
    expect([version, status]).toEqual([version, expected])
  }
  expect(await labels()).toEqual(['new', 'new'])
  const abstract = model('abstract', 'o String label o String place')
  const refused = await send('PUT', '/networks/test-network', abstract, '3.0.0')
  expect(refused.json.error.details).toEqual([
    {
      path: '/org.test.Thing#a',
      code: 'WRONG_CLASS',
      message: 'org.test.Thing is not a concrete asset type in the new model',
    },
  ])
})

it('an upgrade fills new fields of nested objects, and refuses every model that stored resources do not fit', async () => {
  const node = await gateway()
  const model = (lines: string, fields: string, identifier = 'id') => `namespace org.test
    concept Line { o String what ${lines} }
    asset Thing identified by ${identifier} { o String id o String code o String day o Line[] lines ${fields} }`
  const send = (method: string, path: string, source: string, version: string) =>
    node.send(method, path, new Uint8Array(networkOf(source, {}, { version }).archive), {
      'content-type': 'application/octet-stream',
    })
  await send('POST', '/networks', model('', ''), '1.0.0')
  const thing = { id: 'a', code: 'c', day: '2026-01-02', lines: [{ what: 'w' }] }
  await node.send('POST', '/test-network/api/Thing', thing)
  const path = '/networks/test-network'
  const asset = model('', '')
  const problems = async (source: string, query = '') =>
    (await send('PUT', path + query, source, '2.0.0')).json.error?.details.map(
      ({ path: at, code }: { path: string; code: string }) => `${at} ${code}`,
    )
  const at = '/org.test.Thing#a'
  expect(await problems(model('o Integer count', ''))).toEqual([`${at}/lines/0/count MISSING`])
  expect(await problems(model('', '', 'code'))).toEqual([`${at}/code WRONG_TYPE`])
  expect(await problems(asset.replace('String day', 'DateTime day'))).toEqual([
    `${at}/day WRONG_TYPE`,
  ])
  expect(await problems(asset.replace('o String code', '--> Thing code'))).toEqual([
    `${at}/code WRONG_TYPE`,
  ])
  expect(await problems(asset.replace('asset', 'participant'))).toEqual([`${at} WRONG_CLASS`])
  const extended = model('o Integer count o Boolean done default=false o String[] tags', '')
  expect(await problems(extended, '?default=Line.count=3')).toBeUndefined()
  const [line] = (await node.send('GET', '/test-network/api/Thing/a')).json.lines
  expect(line).toEqual({ $class: 'org.test.Line', what: 'w', count: 3, done: false, tags: [] })
})

it('deploys, lists and upgrades networks over HTTP, and rejects an upgrade that makes stored resources invalid', async () => {
  const node = await gateway()
  const send = (method: string, path: string, model: string, version: string) =>
    node.send(method, path, new Uint8Array(networkOf(model, {}, { version }).archive), {
      'content-type': 'application/octet-stream',
    })
  const deployed = await send('POST', '/networks', MODEL, '1.0.0')
  expect([deployed.status, deployed.json.name]).toEqual([200, 'test-network'])
  expect(deployed.json.sha256).toBe(networkOf(MODEL).sha256)
  expect((await send('POST', '/networks', MODEL, '1.0.0')).json.error.code).toBe('NETWORK_EXISTS')
  expect(
    (await node.send('GET', '/networks')).json.map(({ name }: { name: string }) => name),
  ).toEqual(['mynetwork', 'test-network'])
  await node.send('POST', '/test-network/api/Thing', [
    { id: 'a', size: 1 },
    { id: 'b', size: 2 },
  ])
  const same = await send('PUT', '/networks/test-network', MODEL, '1.0.0')
  expect(same.json.error.code).toBe('NETWORK_VERSION_SAME')

  const wider = MODEL.replace('o Integer size', 'o Integer size o String label')
  const refused = await send('PUT', '/networks/test-network', wider, '2.0.0')
  expect(refused.status).toBe(422)
  expect(refused.json.error.details).toEqual([
    { path: '/org.test.Thing#a/label', code: 'MISSING', message: 'Thing needs label' },
    { path: '/org.test.Thing#b/label', code: 'MISSING', message: 'Thing needs label' },
  ])
  expect((await node.send('GET', '/test-network/api/Thing/a')).json).not.toHaveProperty('label')

  const blocks = (await entries(node)).length
  const upgraded = await send(
    'PUT',
    '/networks/test-network?default=Thing.label=new',
    wider,
    '2.0.0',
  )
  expect([upgraded.status, upgraded.json.version]).toEqual([200, '2.0.0'])
  expect(await entries(node)).toHaveLength(blocks + 1)
  expect((await node.send('GET', '/test-network/api/Thing/a')).json.label).toBe('new')
  const without = await node.send('POST', '/test-network/api/Thing', { id: 'c', size: 1 })
  expect(without.status).toBe(422)
  const gone = await send(
    'PUT',
    '/networks/test-network',
    'namespace org.test asset Other identified by id { o String id }',
    '3.0.0',
  )
  expect(gone.json.error.details[0].code).toBe('WRONG_CLASS')
  const bad = await node.send('POST', '/networks', 'PK', {
    'content-type': 'application/octet-stream',
  })
  expect([bad.status, bad.json.error.code]).toEqual([400, 'NETWORK_UNREADABLE'])
})

it('deploys a network whose rules have conditions', async () => {
  const folder = fileURLToPath(new URL('../networks/bond', import.meta.url))
  const node = await gateway()
  const definition = requireDefinition(readNetwork(folder))
  await node.networks.deploy(definition)
  expect(await node.ledger.read.databases()).toEqual([definition.name])
})

it('rejects a network with the name of a path of the gateway or the ledger', async () => {
  const node = await gateway()
  const manifest = JSON.stringify({ name: 'doc', version: '1.0.0' })
  const files = { 'package.json': manifest, 'models/model.cto': MODEL }
  const archive = writeArchive(
    new Map(Object.entries(files).map(([path, text]) => [path, Buffer.from(text)])),
  )
  const { status, json } = await node.send('POST', '/networks', archive, {
    'content-type': 'application/octet-stream',
  })
  expect([status, json.error.code]).toEqual([422, 'NETWORK_INVALID'])
  const message = '“name” must be the name of the network: '
  const form = 'at most 64 lower-case letters, digits, “-”, “_” and “.”, and not a reserved name'
  expect(json.error.details[0].message).toBe(message + form)
})

it('rejects a network whose scripts cannot be loaded', async () => {
  const node = await gateway()
  const model = 'namespace org.test asset Thing identified by id { o String id }'
  const definition = networkOf(model, { 'lib/broken.js': 'nothing.at.all()' })
  await expect(node.networks.deploy(definition)).rejects.toMatchObject({
    code: 'NETWORK_INVALID',
    message: expect.stringMatching(/lib\/broken.js: ReferenceError: 'nothing' is not defined/),
  })
  expect(await node.ledger.read.databases()).toEqual([])
})

it('rejects a network with a script that the engine cannot interrupt while it loads', async () => {
  const node = await gateway()
  const endless = '[].includes.call({ length: 2 ** 53 - 1 }, 1)'
  const model = 'namespace org.test asset Thing identified by id { o String id }'
  const definition = networkOf(model, { 'lib/endless.js': endless })
  await expect(node.networks.deploy(definition)).rejects.toMatchObject({
    code: 'NETWORK_INVALID',
    message: 'the scripts of the network take too long to load',
  })
  const { status } = await node.send('GET', '/api/Commodity')
  expect([status, await node.ledger.read.databases()]).toEqual([200, []])
})

it('does not deploy a network that has the name of an existing database, and keeps the database writable', async () => {
  const node = await gateway()
  await node.ledger.write.createDatabase('test-network')
  await expect(node.networks.deploy(networkOf(MODEL))).rejects.toMatchObject({
    code: 'NETWORK_NAME_TAKEN',
  })
  await node.ledger.write.createItem('test-network', { id: 'mine' })
})

it('does not serve a network that cannot be loaded, logs a warning, and keeps its database read-only', async () => {
  const folder = temporaryFolder()
  const first = await startGateway({ folder })
  await first.ledger.write.createDatabase('odd')
  const id = `${SYSTEM}.Network#odd`
  const text = JSON.stringify({ id, archive: 'AAAA' })
  await first.ledger.write.recordUnit(
    [{ kind: 'create_item', db: 'odd', id, text, assigned: false }],
    {
      precondition: null,
      idempotency: null,
      network: { db: 'odd', since: null },
    },
  )
  await first.close()
  const warnings: string[] = []
  const second = await gateway({ folder, warn: (message) => warnings.push(message) })
  expect(warnings).toEqual([expect.stringMatching(/^network odd is not served: /)])
  expect((await second.send('GET', '/odd/api/Thing')).status).toBe(404)
  await expect(second.ledger.write.createItem('odd', {})).rejects.toMatchObject({
    code: 'OWNED_BY_NETWORK',
  })
})

it('shows the return type of each transaction in the explorer', async () => {
  const model = `namespace org.test
    enum Colour { o RED o GREEN }
    concept Line { o String what }
    @returns(Line[]) transaction Lines {}
    @returns(Colour) transaction Paint {}
    @returns(Long) transaction Count {}
    transaction Plain {}`
  const node = await gateway({ deploy: [networkOf(model)] })
  const { paths } = (await node.send('GET', '/explorer/openapi.json')).json
  const returns = (name: string) =>
    paths[`/${name}`].post.responses[200].content['application/json'].schema
  const line = { $ref: '#/components/schemas/org.test.Line' }
  expect(['Lines', 'Paint', 'Count', 'Plain'].map(returns)).toEqual([
    { type: 'array', items: line },
    { type: 'string', enum: ['RED', 'GREEN'] },
    { type: 'integer', format: 'int64' },
    { $ref: '#/components/schemas/org.test.Plain' },
  ])
})

it('serves /status, / and ping', async () => {
  const node = await gateway()
  const root = await node.send('GET', '/')
  expect([root.status, root.headers.get('location')]).toEqual([302, '/explorer'])
  expect((await node.send('GET', '/status')).json).toEqual({
    started: expect.any(String),
    uptime: 0,
  })
  expect((await node.send('GET', '/mynetwork/explorer/')).status).toBe(200)
  expect((await node.send('GET', '/nowhere/explorer')).status).toBe(404)
  expect((await node.send('GET', '/explorer/../package.json')).status).toBe(404)
})
