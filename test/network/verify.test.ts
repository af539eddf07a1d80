// `daicho network verify`, and the networks of a node after a kill, tested with real folders and processes.
import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { expect, it, onTestFinished, vi } from 'vitest'
import type { JsonObject } from '../../src/base/json.ts'
import { openLedger, toUnit } from '../../src/ledger/core.ts'
import { NetworkThread } from '../../src/network/deployment/network-thread.ts'
import { NetworkError } from '../../src/network/index.ts'
import { runDaicho, startDaicho } from '../support/daicho.ts'
import { gateway, networkOf, startGateway } from '../support/gateway.ts'
import { HandClock } from '../support/ledger-node.ts'

const T = '/api/Trade'
const TRADERS = ['ann', 'bob'].map((tradeId) => ({ tradeId, firstName: 'F', lastName: 'L' }))
const RICE = {
  tradingSymbol: 'RICE',
  description: 'd',
  mainExchange: 'm',
  quantity: 1,
  owner: 'ann',
}

async function folderOf(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'daicho-network-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

it('leaves only complete transactions after SIGKILL, and `daicho network verify` accepts them', async () => {
  const folder = await folderOf()
  const variables = { SYSTEM_FOLDER: folder, LOG_LEVEL: 'fatal' }
  const flags = ['serve', '--only', 'gateway', '--gateway-port', '0', '--json']
  const served = startDaicho(flags, variables)
  const url: string = JSON.parse(await served.firstLine).gateway
  const post = async (path: string, body: unknown) => {
    const headers = { 'content-type': 'application/json' }
    const reply = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    return reply.status
  }
  expect(await post('/api/Trader', TRADERS)).toBe(200)
  expect(await post('/api/Commodity', RICE)).toBe(200)
  let answered = 0
  const all = Array.from({ length: 1_000 }, async (_, n) => {
    const status = await post(T, { commodity: 'RICE', newOwner: n % 2 === 0 ? 'ann' : 'bob' })
    if (status === 200) answered += 1
    if (answered === 300) served.child.kill('SIGKILL')
  })
  await Promise.allSettled(all)
  await served.ended
  const verified = await runDaicho(['network', 'verify', '--json'], variables)
  const [network] = JSON.parse(verified.stdout).networks
  expect([verified.code, network.finding]).toEqual([0, null])
  // Two transactions deployed the network, and each acknowledged trade is recorded.
  expect(network.transactions).toBeGreaterThanOrEqual(answered + 2)
  expect(network.transactions).toBeLessThan(1_002)
  expect((await runDaicho(['verify', folder])).code).toBe(0)
})

const MODEL = `namespace org.test
asset Thing identified by id { o String id o Double value default=0 }
transaction Bump { --> Thing thing }`
const bump = (by: string) => `
/** @param {org.test.Bump} tx the transaction
 *  @transaction */
async function bump(tx) {
  tx.thing.value += ${by}
  await (await getAssetRegistry('org.test.Thing')).update(tx.thing)
}`

it('verifies a network across upgrades, and finds a write that no processor made', async () => {
  const folder = await folderOf()
  const node = await startGateway({
    folder,
    deploy: [networkOf(MODEL, { 'lib/bump.js': bump('Math.random() + Date.now()') })],
  })
  await node.send('POST', '/api/Thing', [{ id: 'a' }, { id: 'b' }])
  for (const thing of ['a', 'b', 'a']) await node.send('POST', '/api/Bump', { thing })
  const next = networkOf(MODEL, { 'lib/bump.js': bump('1') }, { version: '2.0.0' })
  await node.networks.upgrade(next, [])
  await node.send('POST', '/api/Bump', { thing: 'a' })
  await node.send('PUT', '/api/Thing/b', { value: 7 })
  await node.send('DELETE', '/api/Thing/b')
  await node.close()
  const variables = { SYSTEM_FOLDER: folder }
  const right = await runDaicho(['network', 'verify', 'test-network'], variables)
  expect([right.code, right.stdout]).toEqual([
    0,
    'test-network  9 transactions in 9 blocks: all match the ledger\n',
  ])

  const ledger = await openLedger({ folder, clock: new HandClock() })
  const transactionId = 'made-up'
  const id = `org.test.Bump#${transactionId}`
  const system = 'org.hyperledger.composer.system'
  const timestamp = '2027-01-15T08:00:00.000Z'
  const resource = {
    $class: 'org.test.Bump',
    transactionId,
    timestamp,
    thing: 'resource:org.test.Thing#a',
  }
  const record = { $class: `${system}.HistorianRecord`, transactionId, eventsEmitted: [] }
  const value = { $class: 'org.test.Thing', id: 'a', value: 1_000_000 }
  const db = 'test-network'
  const unit = toUnit(
    [
      { method: 'create_item', db, item: { id, resource } },
      {
        method: 'create_item',
        db,
        item: { id: `${system}.HistorianRecord#${transactionId}`, resource: record },
      },
      { method: 'update_item', db, item: { id: 'org.test.Thing#a', resource: value } },
    ],
    { sub: '' },
  )
  // A defect or an attacker that bypasses the writer's check: only the network may change its database.
  await ledger.service.write.ownDatabase(db).record(unit)
  await ledger.close()
  const wrong = await runDaicho(['network', 'verify'], variables)
  expect([wrong.code, wrong.stdout]).toEqual([
    1,
    'test-network  block 9: transaction made-up: the writes of the replay differ from the recorded writes, starting with number 0\n',
  ])
})

const SYSTEM = 'org.hyperledger.composer.system'

it.each<[string, string, object | null]>([
  ['without a transaction', 'block 9: org.test.Thing#a was changed without a transaction', null],
  [
    'beside the revocation of an identity',
    'transaction made-up: the writes of the replay differ',
    {
      $class: `${SYSTEM}.RevokeIdentity`,
      identity: `resource:${SYSTEM}.Identity#${'0'.repeat(64)}`,
    },
  ],
  [
    'by the change of another resource',
    'transaction made-up: the writes of the replay differ',
    {
      $class: `${SYSTEM}.UpdateAsset`,
      targetRegistry: `resource:${SYSTEM}.AssetRegistry#org.test.Thing`,
      resources: [{ $class: 'org.test.Thing', id: 'b', name: 'n', value: 1_000_000 }],
    },
  ],
  [
    'by a start of the network',
    'transaction made-up: the writes of the replay differ',
    { $class: `${SYSTEM}.StartBusinessNetwork` },
  ],
  [
    'by an upgrade of the network',
    'transaction made-up: the upgrade does more than add members to org.test.Thing#a',
    { $class: `${SYSTEM}.StartBusinessNetwork`, isUpgrade: true },
  ],
])('`daicho network verify` finds a resource that was changed %s', async (_, finding, made) => {
  const folder = await folderOf()
  const db = 'test-network'
  const node = await startGateway({ folder, deploy: [networkOf(MODEL)] })
  const participant = `resource:${SYSTEM}.NetworkAdmin#admin`
  await node.send('POST', '/api/Thing', [{ id: 'a' }, { id: 'b' }])
  const issue = { participant, userID: 'u', options: { issuer: true } }
  const { userSecret } = (await node.send('POST', '/api/system/identities/issue', issue)).json
  const id = createHash('sha256').update(userSecret).digest('hex')
  const certificate = `sha256:${'0'.repeat(64)}`
  const binding = { participant, certificate }
  expect((await node.send('POST', '/api/system/identities/bind', binding)).status).toBe(204)
  expect((await node.send('POST', `/api/system/identities/${id}/revoke`)).status).toBe(204)
  const added = MODEL.replace('value default=0', 'value default=0 o String name')
  const next = networkOf(added, {}, { version: '2.0.0' })
  await node.networks.upgrade(next, [{ type: 'Thing', field: 'name', value: 'n' }])
  expect((await node.send('POST', '/api/Thing', { id: 'c', name: 'c' })).status).toBe(200)
  expect((await node.send('DELETE', '/api/Thing', ['c'])).status).toBe(204)
  await node.send('PATCH', '/api/Thing/b', { value: 7 })
  await node.close()
  const verify = () => runDaicho(['network', 'verify'], { SYSTEM_FOLDER: folder })
  expect(await verify()).toMatchObject({
    code: 0,
    stdout: `${db}  9 transactions in 9 blocks: all match the ledger\n`,
  })

  const ledger = await openLedger({ folder, clock: new HandClock() })
  const network = await ledger.service.reader.readItem(db, `${SYSTEM}.Network#${db}`)
  const { isUpgrade, ...fields } = Object(made)
  const change = (method: 'create_item' | 'update_item', id: string, resource: JsonObject) =>
    ({ method, db, item: { id, resource } }) as const
  const resource = { ...fields, transactionId: 'made-up', timestamp: '2027-01-15T08:00:00.000Z' }
  const record = { $class: `${SYSTEM}.HistorianRecord`, transactionId: 'made-up' }
  const records = [
    change('create_item', `${fields.$class}#made-up`, resource),
    change('create_item', `${SYSTEM}.HistorianRecord#made-up`, record),
  ]
  // The resource of another item, as a reader of this item sees it.
  const value = { $class: 'org.test.Thing', id: 'b', name: 'n', value: 1_000_000 }
  const entries = [
    ...(isUpgrade === true
      ? [{ method: 'update_item', db, item: JSON.parse(network?.text ?? '') } as const]
      : []),
    ...(made === null ? [] : records),
    change('update_item', 'org.test.Thing#a', value),
  ]
  await ledger.service.write.ownDatabase(db).record(toUnit(entries, { sub: '' }))
  await ledger.close()
  const wrong = await verify()
  expect([wrong.code, wrong.stdout]).toEqual([1, expect.stringContaining(finding)])
})

it('replays the reads of transactions to which a later upgrade added a member', async () => {
  const files = {
    'lib/look.js': `async function onNote() {}
      async function onLook(tx) {
        const notes = await (await getTransactionRegistry('org.test.Note')).getAll()
        const found = await query('notes')
        tx.thing.seen = [...notes, ...found].map(({ text, tag }) => text + tag).join()
        await (await getAssetRegistry('org.test.Thing')).update(tx.thing)
      }`,
    'queries.qry': 'query notes { statement: SELECT org.test.Note ORDER BY [text DESC] }',
  }
  const model = (tag: string) => `namespace org.test
    asset Thing identified by id { o String id o String seen optional }
    transaction Note { o String text ${tag} }
    transaction Look { --> Thing thing }`
  const node = await gateway({ deploy: [networkOf(model(''), files)] })
  await node.send('POST', '/api/Thing', { id: 'a' })
  const seen = async () => {
    expect((await node.send('POST', '/api/Look', { thing: 'a' })).status).toBe(200)
    return (await node.send('GET', '/api/Thing/a')).json.seen
  }
  await node.send('POST', '/api/Note', { text: 'x' })
  expect(await seen()).toBe('xundefined,xundefined')
  const next = networkOf(model('o String tag default="t"'), files, { version: '2.0.0' })
  await node.networks.upgrade(next, [])
  await node.send('POST', '/api/Note', { text: 'y' })
  expect(await seen()).toBe('xt,yt,yt,xt')
  expect((await node.networks.verify('test-network', () => {})).finding).toBeNull()
})

it('ignores the entries of a deleted database that had the name of the network', async () => {
  const folder = await folderOf()
  const ledger = await openLedger({ folder, clock: new HandClock() })
  const { service } = ledger
  const emitted = { $class: 'org.test.Forged', eventId: 'forged#0' }
  const resource = { transactionId: 'forged', eventsEmitted: [emitted] }
  await service.write.createDatabase('test-network')
  const id = 'org.hyperledger.composer.system.HistorianRecord#forged'
  await service.write.createItem('test-network', { id, resource })
  await service.write.deleteDatabase('test-network')
  await ledger.close()
  const node = await gateway({ folder, deploy: [networkOf(MODEL, { 'lib/bump.js': bump('1') })] })
  await node.send('POST', '/api/Thing', { id: 'a' })
  const result = await node.networks.verify('test-network', () => {})
  expect(result).toEqual({ blocks: 2, restored: 0, transactions: 2, finding: null })
  const { emitted: events } =
    (await node.networks.get('test-network')?.events.readRecorded(0)) ?? {}
  expect(events).toEqual([])
})

it('reports progress before each transaction is replayed', async () => {
  const node = await gateway({ deploy: [networkOf(MODEL, { 'lib/bump.js': bump('1') })] })
  await node.send('POST', '/api/Thing', [{ id: 'a' }, { id: 'b' }])
  await node.send('POST', '/api/Bump', { thing: 'a' })
  await node.send('POST', '/api/Bump', { thing: 'b' })
  const reports: object[] = []
  const result = await node.networks.verify('test-network', (progress) => reports.push(progress))
  expect(result).toEqual({ blocks: 4, restored: 0, transactions: 4, finding: null })
  expect(reports).toEqual([0, 1, 2, 3].map((height) => ({ height, transactions: height + 1 })))
})

it('verification fails with an error, not with a finding, if the scripts cannot be loaded', async () => {
  const folder = await folderOf()
  const node = await startGateway({
    folder,
    deploy: [networkOf(MODEL, { 'lib/bump.js': bump('1') })],
  })
  await node.send('POST', '/api/Thing', { id: 'a' })
  await node.send('POST', '/api/Bump', { thing: 'a' })
  const message = 'the scripts of test-network cannot be loaded: it did not start'
  const refusal = new NetworkError('NETWORK_INVALID', message)
  const start = vi.spyOn(NetworkThread, 'start').mockRejectedValue(refusal)
  onTestFinished(() => start.mockRestore())
  await expect(node.networks.verify('test-network', () => {})).rejects.toMatchObject({
    code: 'NETWORK_INVALID',
    message: 'the scripts of test-network cannot be loaded: it did not start',
  })
  start.mockRestore()
  expect((await node.networks.verify('test-network', () => {})).finding).toBeNull()
  await node.close()
})

it('verification returns its result even if its thread ends while the main thread is busy', async () => {
  const node = await gateway({ deploy: [networkOf(MODEL, { 'lib/bump.js': bump('1') })] })
  await node.send('POST', '/api/Thing', { id: 'a' })
  const verifying = node.networks.verify('test-network', () => {})
  // Blocks until the thread has exited, so that its messages arrive together with its exit.
  await setImmediate()
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500)
  expect(await verifying).toMatchObject({ transactions: 2, finding: null })
})

it('the data of a network can be restored into a new chain, and the network is served again', async () => {
  const folder = await folderOf()
  const restored = await folderOf()
  const deploy = [networkOf(MODEL, { 'lib/bump.js': bump('1') })]
  const node = await startGateway({ folder, deploy })
  await node.send('POST', '/api/Thing', [{ id: 'a' }, { id: 'b' }])
  const key = node.ledger.log.verifierKey
  await node.close()
  const file = join(folder, 'chain.ndjson')
  expect((await runDaicho(['export', folder, '--out', file])).code).toBe(0)
  const imported = await runDaicho(['import', file, '--folder', restored, '--key', key])
  expect([imported.code, imported.stdout]).toEqual([
    0,
    expect.stringContaining('everything is valid'),
  ])
  const again = await startGateway({ folder: restored, deploy })
  expect((await again.send('GET', '/api/Thing/b')).json).toMatchObject({ id: 'b', value: 0 })
  expect((await again.send('POST', '/api/Bump', { thing: 'b' })).status).toBe(200)
  await again.close()
  const variables = { SYSTEM_FOLDER: restored }
  const verified = await runDaicho(['network', 'verify'], variables)
  expect([verified.code, verified.stdout]).toEqual([
    0,
    'test-network  1 transaction in 1 block: all match the ledger; 1 block restored from another chain, not replayed\n',
  ])

  // A backup knows which blocks were restored, and has the old chain, which may exist nowhere else.
  const made = await runDaicho(['backup', restored, join(folder, 'backups'), '--json'])
  const { path } = JSON.parse(made.stdout)
  const inBackup = await runDaicho(['network', 'verify'], { SYSTEM_FOLDER: path })
  expect([inBackup.code, inBackup.stdout]).toEqual([0, verified.stdout])
  const old = join(path, 'mirrors', key.slice('daicho/'.length, key.indexOf('+')))
  expect((await runDaicho(['verify', old])).stdout).toContain('Everything is valid: 2 blocks')
  await writeFile(join(restored, 'restored.json'), '{')
  expect(await runDaicho(['network', 'verify'], variables)).toMatchObject({
    code: 78,
    stderr: expect.stringContaining('restored.json does not describe a restore'),
  })
})
