// Concurrent transactions. Each transaction sees the writes of earlier transactions, but not the state that their
// scripts left in the sandbox.
import fc from 'fast-check'
import { expect, it, onTestFinished } from 'vitest'
import { openLedger } from '../../src/ledger/core.ts'
import {
  ADMIN,
  type BusinessNetwork,
  Networks,
  requireDefinition,
  type TypeDeclaration,
} from '../../src/network/index.ts'
import { HandClock } from '../support/ledger-node.ts'
import { roundsOf } from '../support/rounds.ts'

const MODEL = `namespace org.ahead
asset Account identified by id { o String id o Integer balance default=0 o DateTime seen optional }
transaction Run { --> Account account o String code }`
const SCRIPT = `/** @param {org.ahead.Run} tx the transaction
 *  @transaction */
async function run(tx) { await (0, eval)('(async (tx) => {' + tx.code + '})')(tx) }`
const NAME = 'ahead'
const DEADLINE_MS = 2_000

async function started() {
  const clock = new HandClock()
  const { service, close } = await openLedger({ folder: null, clock })
  const nothing = () => {}
  const networks = await Networks.open({
    ledger: service,
    ...{ clock, version: '0', warn: nothing, log: nothing, deadlineMs: DEADLINE_MS },
  })
  onTestFinished(async () => {
    await networks.close()
    await close()
  })
  const about = JSON.stringify({ name: NAME, version: '1.0.0' })
  const texts = { 'package.json': about, 'models/m.cto': MODEL, 'lib/run.js': SCRIPT }
  const files = new Map(Object.entries(texts).map(([path, text]) => [path, Buffer.from(text)]))
  const network = await networks.deploy(requireDefinition({ packed: null, files }))
  await network.change(
    { kind: 'create', type: 'org.ahead.Account', text: JSON.stringify({ id: 'a' }) },
    ADMIN,
  )
  /** Submits `codes` concurrently, and returns the outcome of each. */
  const submitAll = async (codes: readonly string[]) => {
    const all = codes.map((code) =>
      network.submit(type(network, 'Run'), JSON.stringify({ account: 'a', code }), ADMIN),
    )
    const ends = await Promise.allSettled(all)
    return ends.map((end) => (end.status === 'fulfilled' ? 'done' : String(end.reason.code)))
  }
  const account = () => network.readUnchecked({ type: 'org.ahead.Account', id: 'a' })
  /** Replays the whole ledger, and returns the fault that this finds, or null. */
  const finding = async () => (await networks.verify(NAME, nothing)).finding
  return { network, networks, submitAll, account, finding }
}

function type(network: BusinessNetwork, name: string): TypeDeclaration {
  const found = network.definition.model.type(`org.ahead.${name}`)
  if (found === null) throw new Error(`there is no ${name}`)
  return found
}

const registry = `const registry = await getAssetRegistry('org.ahead.Account');`
const ADD = `${registry} tx.account.balance += 1; await registry.update(tx.account)`
const DONE = 'done'

it.each([
  ['a resource that the transaction references', ADD],
  [
    'a resource that is read from its registry',
    `${registry} const [one] = await registry.getAll(); one.balance += 1; await registry.update(one)`,
  ],
  [
    'a resource with a date',
    `${registry} tx.account.seen = new Date('2026-01-0' + (tx.account.balance % 9 + 1));
     tx.account.balance += 1; await registry.update(tx.account)`,
  ],
  [
    'a resource that is removed and created again',
    `${registry} const balance = tx.account.balance; await registry.remove('a');
     const made = getFactory().newResource('org.ahead', 'Account', 'a');
     made.balance = balance + 1; await registry.add(made)`,
  ],
])(
  'loses no change of fifty concurrent transactions that each add one to %s',
  async (_label, code) => {
    const { submitAll, account, finding } = await started()
    expect(await submitAll(Array(50).fill(code))).toEqual(Array(50).fill(DONE))
    expect([(await account())?.balance, await finding()]).toEqual([50, null])
  },
)

it('hides the script state and the writes of a failed transaction from later transactions', async () => {
  const { submitAll, account, finding } = await started()
  const leave = `globalThis.left = 1; Array.prototype.map = null; JSON.stringify = () => '{"$class":1}'`
  const fail = `${ADD}; throw new Error('no')`
  const look = `if (globalThis.left || ![].map) throw new Error('seen'); ${ADD}`
  const refused = `${registry} try { await registry.add(tx.account) } catch { ${ADD} }`
  const codes = [ADD, leave, look, fail, look, refused, look, fail, refused, ADD]
  const failed = 'TRANSACTION_FAILED'
  expect(await submitAll(codes)).toEqual(codes.map((code) => (code === fail ? failed : DONE)))
  expect([(await account())?.balance, await finding()]).toEqual([7, null])
})

it('hides a rejected write from transactions that started later', async () => {
  const { submitAll, account, finding } = await started()
  // The script continues as if `add` had succeeded, until the host rejects `add`. By then, later transactions have run.
  const refused = `${registry} tx.account.balance += 100
    try { await registry.add(tx.account) }
    catch { tx.account.balance -= 99; await registry.update(tx.account) }`
  const plain = Array(7).fill(ADD)
  const codes = [ADD, ...plain, refused, ...plain, refused, refused, ...plain]
  expect(await submitAll(codes)).toEqual(codes.map(() => DONE))
  expect([(await account())?.balance, await finding()]).toEqual([codes.length, null])
})

it('applies each of many concurrent transactions once, in order', async () => {
  const { submitAll, account, finding } = await started()
  const viaRegistry = `${registry} const [one] = await registry.getAll(); one.balance += 1; await registry.update(one)`
  const recreated = `${registry} const { balance } = tx.account; await registry.remove('a')
    const next = getFactory().newResource('org.ahead', 'Account', 'a')
    next.balance = balance + 1; await registry.add(next)`
  const caughtRefusal = `${registry} try { await registry.add(tx.account) } catch { ${ADD} }`
  const failed = `${viaRegistry}; throw new Error('no')`
  const failedRead = `${registry} tx.account.balance += 100; await registry.update(tx.account); await registry.get('b')`
  const code = fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom(ADD, viaRegistry, recreated) },
    { weight: 2, arbitrary: fc.constantFrom(caughtRefusal, failed, failedRead) },
  )
  let sum = 0
  await fc.assert(
    fc.asyncProperty(fc.array(code, { minLength: 20, maxLength: 50 }), async (codes) => {
      const fails = (each: string) => each === failed || each === failedRead
      const ends = codes.map((each) => (fails(each) ? 'TRANSACTION_FAILED' : DONE))
      sum += ends.filter((end) => end === DONE).length
      expect(await submitAll(codes)).toEqual(ends)
      expect((await account())?.balance).toBe(sum)
    }),
    { numRuns: roundsOf(10), endOnFailure: true },
  )
  expect(await finding()).toBe(null)
})

it('replays what a transaction read of earlier ones, in its own block and before', async () => {
  const { submitAll, account, finding } = await started()
  const newest =
    'SELECT org.hyperledger.composer.system.HistorianRecord ORDER BY [transactionId DESC] LIMIT 2 SKIP 1'
  const read = `${registry} const runs = await getTransactionRegistry('org.ahead.Run')
    const all = await runs.getAll(), [second, third] = await query(buildQuery('${newest}'))
    const isKnown = all.length === 0 || (await runs.exists(all.at(-1).getIdentifier()))
    if (!isKnown || (await runs.exists(tx.getIdentifier()))) throw new Error('wrong')
    if (second && third && !(second.transactionId > third.transactionId)) throw new Error('order')
    tx.account.balance = tx.account.balance * 2 % 1009 + all.length
    await registry.update(tx.account)`
  let balance = 0
  for (let count = 0; count < 24; count += 1) balance = ((balance * 2) % 1_009) + count
  for (const count of [16, 8])
    expect(await submitAll(Array(count).fill(read))).toEqual(Array(count).fill(DONE))
  expect([(await account())?.balance, await finding()]).toEqual([balance, null])
})

it('stops an endless transaction without affecting other transactions', async () => {
  const { submitAll, account, finding } = await started()
  const ends = await submitAll([ADD, 'for (;;);', ADD, ADD])
  expect(ends).toEqual([DONE, 'PROCESSOR_DEADLINE', DONE, DONE])
  expect([(await account())?.balance, await finding()]).toEqual([3, null])
})

it('executes other transactions without delay if a transaction exhausts its memory', async () => {
  const { submitAll, account, finding } = await started()
  const viaRegistry = `${registry} const [one] = await registry.getAll(); one.balance += 1; await registry.update(one)`
  const bomb = 'const all = []; for (;;) all.push(new ArrayBuffer(1 << 20))'
  // The first transactions after `bomb` were sent to its thread before it failed. The last transactions also send
  // requests to the host.
  const codes = [...Array(14).fill(ADD), bomb, ADD, ...Array(8).fill(viaRegistry)]
  const ends = codes.map((code) => (code === bomb ? 'PROCESSOR_MEMORY' : DONE))
  expect(await submitAll(codes)).toEqual(ends)
  expect([(await account())?.balance, await finding()]).toEqual([codes.length - 1, null])
})

it('shows a transaction the new value of a resource that an earlier transaction replaced', async () => {
  const { network, submitAll, account, finding } = await started()
  const before = submitAll([ADD, ADD])
  const replaced = network.change(
    {
      ...{ kind: 'update', type: 'org.ahead.Account', id: 'a', isPatch: false, expects: null },
      text: JSON.stringify({ $class: 'org.ahead.Account', balance: 100 }),
    },
    ADMIN,
  )
  const after = submitAll([ADD, ADD])
  expect([await before, JSON.parse((await replaced).reply), await after]).toEqual([
    [DONE, DONE],
    { $class: 'org.ahead.Account', id: 'a', balance: 100 },
    [DONE, DONE],
  ])
  expect([(await account())?.balance, await finding()]).toEqual([102, null])
})

it('lets a transaction refer to a resource that an earlier concurrent transaction added', async () => {
  const { network, account, finding } = await started()
  const add = `${registry} const made = getFactory().newResource('org.ahead', 'Account', 'b')
    made.balance = 5; await registry.add(made)`
  // `tx.account` was resolved before the script writes 7 to b, so `tx.account.balance` is still 5.
  const look = `${registry} const other = getFactory().newResource('org.ahead', 'Account', 'b')
    other.balance = 7; await registry.update(other)
    const one = await registry.get('a'); one.balance = tx.account.balance; await registry.update(one)`
  const run = type(network, 'Run')
  await Promise.all([
    network.submit(run, JSON.stringify({ account: 'a', code: add }), ADMIN),
    network.submit(run, JSON.stringify({ account: 'b', code: look }), ADMIN),
  ])
  expect([(await account())?.balance, await finding()]).toEqual([5, null])
})

it('terminates the thread of a transaction that the engine cannot interrupt, and executes later transactions', async () => {
  const { submitAll, account, finding } = await started()
  const endless = '[].indexOf.call({ length: 1e15 }, 1)'
  const ends = await submitAll([ADD, endless, ADD, endless, ADD])
  expect(ends).toEqual([DONE, 'PROCESSOR_DEADLINE', DONE, 'PROCESSOR_DEADLINE', DONE])
  expect([(await account())?.balance, await finding()]).toEqual([3, null])
})

it('rejects transactions that are queued after the removal of their network, and records earlier transactions', async () => {
  const { networks, submitAll, finding } = await started()
  const before = submitAll([ADD, ADD])
  const removed = networks.remove(NAME)
  const after = submitAll([ADD, ADD])
  expect([await before, await removed, await after, await finding()]).toEqual([
    ...[[DONE, DONE], undefined, ['NETWORK_REMOVED', 'NETWORK_REMOVED'], null],
  ])
})

it('discards the writes of a transaction that is rejected at its end', async () => {
  const { submitAll, account, finding } = await started()
  // The transaction is rejected at its end, because it emits a resource that is not an event.
  const refused = `${registry} tx.account.balance = 100; await registry.update(tx.account)
    emit(tx.account)`
  expect(await submitAll([refused, ADD])).toEqual(['TRANSACTION_FAILED', DONE])
  expect([(await account())?.balance, await finding()]).toEqual([1, null])
})
