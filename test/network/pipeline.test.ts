// Transactions that run while a block is being written. The test decides when the write completes.
import type { Worker } from 'node:worker_threads'
import { expect, it, onTestFinished, vi } from 'vitest'
import { openLedger } from '../../src/ledger/core.ts'
import type { LedgerService, Written } from '../../src/ledger/index.ts'
import {
  ADMIN,
  type BusinessNetwork,
  defaultNetwork,
  Networks,
  requireDefinition,
  type TypeDeclaration,
} from '../../src/network/index.ts'
import { HandClock } from '../support/ledger-node.ts'
import { watchSandboxThreads } from '../support/sandbox-threads.ts'

/** A pending write of one block. */
interface Held {
  readonly entries: number
  store(): void
  refuse(): void
}

/** Starts the default network on a ledger, with functions that complete each write. */
async function started() {
  const { service, close } = await openLedger({
    folder: null,
    clock: new HandClock(),
  })
  const held: Held[] = []
  let arrived = () => {}
  const ownDatabase: LedgerService['write']['ownDatabase'] = (db) => {
    const own = service.write.ownDatabase(db)
    return {
      ...own,
      record: (unit) =>
        new Promise<Written>((resolve, reject) => {
          const store = () => own.record(unit).then(resolve, reject)
          const refuse = () => reject(new Error('the disk is full'))
          held.push({ entries: unit.length, store, refuse })
          arrived()
        }),
    }
  }
  const write = new Proxy(service.write, {
    get(target, key) {
      if (key === 'ownDatabase') return ownDatabase
      const value = Reflect.get(target, key, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const ledger = { ...service, write }
  const nothing = () => {}
  const context = { clock: new HandClock(), version: '0', warn: nothing, log: nothing }
  const networks = await Networks.open({ ledger, ...context, deadlineMs: 5_000 })
  onTestFinished(async () => {
    await networks.close()
    await close()
  })
  /** Resolves to the next pending write, as soon as there is one. */
  const next = async (): Promise<Held> => {
    const first = held.shift()
    if (first !== undefined) return first
    await new Promise<void>((resolve) => {
      arrived = resolve
    })
    return next()
  }
  const answers = { count: 0 }
  const watch = (thread: Worker) => {
    if (thread.threadName !== 'network-sandbox') return
    thread.on('message', (message) => {
      if ('id' in message) answers.count += 1
    })
  }
  process.on('worker', watch)
  onTestFinished(() => void process.off('worker', watch))
  /** Waits until the network threads have returned the results of `count` requests. */
  const decided = (count: number) =>
    vi.waitFor(() => expect(answers.count).toBeGreaterThanOrEqual(count), { timeout: 10_000 })
  const network = await networks.ship(defaultNetwork())
  return { service, network, networks, next, held, decided }
}

const type = (network: BusinessNetwork, name: string): TypeDeclaration => {
  const found = network.definition.model.type(`org.acme.mynetwork.${name}`)
  if (found === null) throw new Error(`there is no ${name}`)
  return found
}
const RICE = {
  tradingSymbol: 'RICE',
  description: 'd',
  mainExchange: 'm',
  quantity: 1,
  owner: 'ann',
}
const COMMODITY = 'org.acme.mynetwork.Commodity'
const TRADER = 'org.acme.mynetwork.Trader'
const create = (network: BusinessNetwork) =>
  network.change({ kind: 'create', type: COMMODITY, text: JSON.stringify(RICE) }, ADMIN)
const trade = (network: BusinessNetwork, newOwner: string) =>
  network.submit(type(network, 'Trade'), JSON.stringify({ commodity: 'RICE', newOwner }), ADMIN)
const owner = async (network: BusinessNetwork) => {
  const rice = { type: 'org.acme.mynetwork.Commodity', id: 'RICE' }
  return String((await network.readUnchecked(rice))?.owner).replace(/.*#/, '')
}
/** The model with one more field for traders. */
const MODEL_2 = `namespace org.acme.mynetwork
participant Trader identified by tradeId {
  o String tradeId o String firstName o String lastName o String grade
}`
/** Returns an object whose `state` is the outcome of `work`: `open`, `done` or the error message. */
function watched(work: Promise<unknown>) {
  const seen = { state: 'open', work: work.catch(() => {}) }
  work.then(
    () => {
      seen.state = 'done'
    },
    (error: Error) => {
      seen.state = error.message
    },
  )
  return seen
}

it('executes a transaction on the results of earlier transactions before these are stored', async () => {
  const { network, next, held, decided } = await started()
  const published: number[] = []
  network.events.listen(({ events }) => published.push(events.length))
  const made = watched(create(network))
  const trades = ['bob', 'eve'].map((name) => watched(trade(network, name)))
  const first = await next()
  // This request is executed on the results of the earlier requests, so it fails, although no block is stored yet.
  const refused = watched(create(network))
  await decided(4)
  const all = () => [made, ...trades, refused].map(({ state }) => state)
  expect([all(), await owner(network), published]).toEqual([Array(4).fill('open'), 'undefined', []])
  first.store()
  const second = await next()
  expect(second.entries).toBe(2 * 3)
  await made.work
  expect([all(), await owner(network), published]).toEqual([
    ['done', 'open', 'open', 'open'],
    'ann',
    [],
  ])
  second.store()
  await Promise.all(trades.map(({ work }) => work))
  await refused.work
  expect(all().slice(0, 3)).toEqual(['done', 'done', 'done'])
  expect(refused.state).toContain('already exists')
  expect([await owner(network), published, held]).toEqual(['eve', [2], []])
})

it('fails all transactions that were based on a failed write, and starts the next block from the stored state', async () => {
  const { network, next, held, decided } = await started()
  const published: number[] = []
  network.events.listen(({ events }) => published.push(events.length))
  const made = watched(create(network))
  const first = await next()
  const later = [
    watched(trade(network, 'bob')),
    // Creates the same resource again, so it is refused because of a write that fails later.
    watched(create(network)),
    watched(
      network.change({ kind: 'remove', type: COMMODITY, ids: ['NONE'], expects: null }, ADMIN),
    ),
  ]
  await decided(4)
  // This request is sent before the write fails. Its result arrives before or after the failure.
  const inBetween = watched(network.change({ kind: 'start' }, ADMIN))
  first.refuse()
  await inBetween.work
  const states = [made, ...later, inBetween].map(({ state }) => state)
  expect(states).toEqual(Array(5).fill('the disk is full'))
  expect([
    await network.readUnchecked({ type: 'org.acme.mynetwork.Commodity', id: 'RICE' }),
    held,
  ]).toEqual([null, []])

  const again = watched(create(network))
  const block = await next()
  // The network is recorded again, because its first block was not written.
  expect(block.entries).toBe(3 + 3)
  block.store()
  await again.work
  expect([again.state, await owner(network), published]).toEqual(['done', 'ann', []])
})

it('writes a single transaction immediately, and concurrent transactions in shared blocks', async () => {
  const { network, next, decided } = await started()
  const made = create(network)
  ;(await next()).store()
  await made
  const trades = Array.from({ length: 20 }, (_, n) => trade(network, `t${n}`))
  const first = await next()
  await decided(1 + 20)
  first.store()
  const others = await next()
  others.store()
  await Promise.all(trades)
  expect([first.entries, others.entries]).toEqual([3, 19 * 3])
  expect(await owner(network)).toBe('t19')
})

/** Returns the definition of a network with a processor. */
function definitionWith(name: string, model: string) {
  const texts = {
    'package.json': JSON.stringify({ name, version: '2.0.0' }),
    'models/m.cto': model,
    'lib/nothing.js': 'function nothing() {}',
  }
  const files = new Map(Object.entries(texts).map(([path, text]) => [path, Buffer.from(text)]))
  return requireDefinition({ packed: null, files })
}

it('terminates the thread of a rejected deployment or upgrade, and releases the name of the network', async () => {
  const { service, network, networks, next } = await started()
  const trader = { tradeId: 'ann', firstName: 'Ann', lastName: 'Ueda' }
  const added = network.change(
    { kind: 'create', type: TRADER, text: JSON.stringify(trader) },
    ADMIN,
  )
  const first = await next()
  first.store()
  await added
  const threads = watchSandboxThreads()
  const upgraded = networks.upgrade(definitionWith('mynetwork', MODEL_2), [])
  await expect(upgraded).rejects.toMatchObject({ code: 'UPGRADE_INVALID' })
  const deployed = watched(networks.deploy(definitionWith('another', MODEL_2)))
  const block = await next()
  // Until the deployment is recorded, clients do not see the network, but no other network can use the name.
  expect([networks.list().map(({ name }) => name), networks.get('another')]).toEqual([
    ['mynetwork'],
    null,
  ])
  block.refuse()
  await deployed.work
  expect([deployed.state, threads]).toEqual(['the disk is full', { begun: 2, left: 0 }])
  await service.write.createDatabase('another')
  expect(await service.read.databases()).toContain('another')
})

it('accepts one of two concurrent deployments with the same name, rejects the other, and serves the network', async () => {
  const { networks, next } = await started()
  const both = [1, 2].map(() => watched(networks.deploy(definitionWith('another', MODEL_2))))
  const first = await next()
  first.store()
  // Completes another pending write, which would exist only if both deployments had been recorded.
  void next().then((block) => block.store())
  await Promise.all(both.map(({ work }) => work))
  const states = both.map(({ state }) => state).toSorted()
  expect(states).toEqual(['a network another is deployed already', 'done'])
  expect(networks.get('another')).not.toBeNull()
})

it('validates a resource that is added during an upgrade with the version that is deployed when the resource is stored', async () => {
  const { network, networks, next } = await started()
  const trader = { tradeId: 'ann', firstName: 'Ann', lastName: 'Ueda' }
  const add = (tradeId: string) =>
    network.change(
      { kind: 'create', type: TRADER, text: JSON.stringify({ ...trader, tradeId }) },
      ADMIN,
    )
  const first = add('ann')
  const deployed = await next()
  deployed.store()
  await first
  const grade = { type: 'Trader', field: 'grade', value: 'A' }
  const upgraded = networks.upgrade(definitionWith('mynetwork', MODEL_2), [grade])
  const upgrade = await next()
  const second = watched(add('bob'))
  upgrade.store()
  await upgraded
  // If the node had accepted the resource, there would be a pending write.
  await Promise.race([second.work, next()])
  expect(second.state).toBe('/grade: Trader needs grade')
})
