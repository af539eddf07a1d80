// Business networks that two real processes serve on one database. Transactions have the same results as with one
// process.
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { readNetwork, requireDefinition } from '../../src/network/index.ts'
import { startDaicho } from '../support/daicho.ts'
import { temporaryFolder } from '../support/ledger-node.ts'
import { until } from '../support/until.ts'
import { sharedPostgres, type TestDatabase } from './shared.ts'

const postgres = await sharedPostgres()
const WAIT_MS = 20_000
/** Number of transfers between four counters. For a longer test: TRANSFERS=1000. */
const TRANSFERS = Number(process.env.TRANSFERS ?? 60)

/** Writes a network whose transaction adds `step` to a counter. `step` is also the major version of the network. */
function writeNetwork(folder: string, step: number): string {
  const files = {
    'package.json': JSON.stringify({ name: 'counting', version: `${step}.0.0`, description: 'x' }),
    'models/counting.cto': `namespace org.counting
      asset Counter identified by id { o String id o Integer value }
      transaction Count { --> Counter counter }
      transaction Transfer { --> Counter from --> Counter to o Integer amount }
      @commit(false)
      @returns(Integer)
      transaction Sum { }
      transaction RequireSum { o Integer sum }
      event Counted { o Integer value }`,
    'permissions.acl': `rule All { description: "all" participant: "ANY" operation: ALL resource: "**" action: ALLOW }`,
    'lib/counting.js': `/**
      * @param {org.counting.Count} count
      * @transaction
      */
      async function count(count) {
        count.counter.value += ${step}
        await (await getAssetRegistry('org.counting.Counter')).update(count.counter)
        const event = getFactory().newEvent('org.counting', 'Counted')
        event.value = count.counter.value
        emit(event)
      }
      /**
      * @param {org.counting.Transfer} transfer
      * @transaction
      */
      async function transfer({ from, to, amount }) {
        from.value -= amount
        to.value += amount
        const registry = await getAssetRegistry('org.counting.Counter')
        await registry.updateAll([from, to])
      }
      async function add() {
        let total = 0
        for (const name of ['t0', 't1', 't2', 't3']) {
          total += (await (await getAssetRegistry('org.counting.Counter')).get(name)).value
        }
        return total
      }
      /**
      * @param {org.counting.Sum} sum
      * @transaction
      */
      async function sum() {
        return add()
      }
      /**
      * @param {org.counting.RequireSum} required
      * @transaction
      */
      async function requireSum({ sum }) {
        if ((await add()) !== sum) throw new Error('the sum differs')
      }`,
  }
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
  return folder
}

interface Process {
  readonly gateway: string
  readonly ledger: string
  end(): Promise<void>
}

async function serve(folder: string, store: string): Promise<Process> {
  const ports = ['--port', '0', '--gateway-port', '0']
  const daicho = startDaicho(['serve', '--only', 'ledger,gateway', ...ports, '--json'], {
    ...{ SYSTEM_FOLDER: folder, STORE: store, LOG_LEVEL: 'error' },
  })
  const { gateway, ledger } = JSON.parse(await daicho.firstLine)
  const end = async () => {
    daicho.child.kill('SIGTERM')
    await daicho.ended
  }
  return { gateway, ledger, end }
}

describe.skipIf(postgres.missing !== null)(`two gateway processes${postgres.note}`, () => {
  let database: TestDatabase
  let both: Process[]
  let networks: string[]

  beforeAll(async () => {
    database = await postgres.newDatabase()
    const [first, second] = [temporaryFolder(afterAll), temporaryFolder(afterAll)]
    networks = [1, 10].map((step) => writeNetwork(temporaryFolder(afterAll), step))
    const one = await serve(first, database.url)
    copyFileSync(join(first, 'node.key'), join(second, 'node.key'))
    both = [one, await serve(second, database.url)]
  })

  afterAll(async () => {
    for (const each of both) await each.end()
    await database[Symbol.asyncDispose]()
  })

  const archive = (at: number) =>
    new Uint8Array(requireDefinition(readNetwork(networks[at] ?? '')).archive)
  const post = (url: string, body: unknown) =>
    fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const gatewayOf = (n: number) => both[n % 2]?.gateway ?? ''
  const valueAt = async (n: number, id = 'c'): Promise<number> => {
    const text = await (await fetch(`${gatewayOf(n)}/counting/api/Counter/${id}`)).text()
    return JSON.parse(text).value
  }
  const countAt = (n: number) => submitted(n, 'Count', { counter: 'c' })
  /** Submits a transaction to process `n`, and repeats it after each temporary error. */
  const submitted = async (n: number, type: string, transaction: unknown): Promise<void> => {
    for (;;) {
      const reply = await post(`${gatewayOf(n)}/counting/api/${type}`, transaction)
      if (reply.status === 200) return
      expect([reply.status, reply.headers.get('retry-after')]).toEqual([503, '1'])
    }
  }
  const isServed = async (n: number) =>
    (await fetch(`${gatewayOf(n)}/counting/api/Counter`)).status === 200

  const expectRefusals = async () => {
    for (const { ledger } of both) {
      const reply = await post(`${ledger}/api/counting`, { id: 'x' })
      expect([reply.status, await reply.text()]).toEqual([409, expect.stringContaining('OWNED')])
    }
  }

  it('two gateway processes serve at one process a network that the other process deployed', async () => {
    const body = archive(0)
    const headers = { 'content-type': 'application/octet-stream' }
    const reply = await fetch(`${gatewayOf(0)}/networks`, { method: 'POST', headers, body })
    expect(reply.status).toBe(200)
    // From the reply on, the other process serves the network and rejects direct changes.
    expect(await isServed(1)).toBe(true)
    await expectRefusals()
    const created = await post(`${gatewayOf(1)}/counting/api/Counter`, { id: 'c', value: 0 })
    expect(created.status).toBe(200)
  })

  it("two gateway processes reject changes of a network's database through the ledger API of each process", async () => {
    await expectRefusals()
  })

  it('two gateway processes execute each transaction once, even if both processes receive transactions concurrently', async () => {
    const clients = Array.from({ length: 16 }, async (_, n) => {
      for (let count = 0; count < 10; count += 1) await countAt(n)
    })
    await Promise.all(clients)
    expect([await valueAt(0), await valueAt(1)]).toEqual([160, 160])
  })

  it(`two gateway processes apply each of ${TRANSFERS} transfers once, although both processes get transfers concurrently`, async () => {
    const names = ['t0', 't1', 't2', 't3']
    const values = new Map(names.map((name) => [name, 1_000]))
    for (const id of names) {
      await post(`${gatewayOf(0)}/counting/api/Counter`, { id, value: 1_000 })
    }
    let left = TRANSFERS
    const clients = Array.from({ length: 16 }, async (_, client) => {
      while (left > 0) {
        left -= 1
        const [from = '', to = ''] = [names[left % 4], names[(left + 1 + (left % 3)) % 4]]
        const amount = 1 + (left % 7)
        await submitted(client, 'Transfer', { from, to, amount })
        values.set(from, (values.get(from) ?? 0) - amount)
        values.set(to, (values.get(to) ?? 0) + amount)
      }
    })
    await Promise.all(clients)
    for (const n of [0, 1]) {
      const stored = await Promise.all(names.map(async (id) => [id, await valueAt(n, id)] as const))
      expect(new Map(stored)).toEqual(values)
    }
    expect([...values.values()].reduce((sum, value) => sum + value)).toBe(4_000)
  })

  it('two gateway processes compute every sum and check every condition on one state, while both record transfers', async () => {
    let isOver = false
    const transfers = [0, 1, 2, 3].map(async (client) => {
      for (let n = 0; !isOver; n += 1) {
        const [from, to] = [`t${n % 4}`, `t${(n + 1 + (client % 3)) % 4}`]
        await submitted(client, 'Transfer', { from, to, amount: 1 + (n % 5) })
      }
    })
    const sums = [0, 1, 2, 3].map(async (client) => {
      for (let n = 0; n < 8; n += 1) {
        const url = `${gatewayOf(client)}/counting/api`
        const sum = await post(`${url}/Sum`, {})
        expect([sum.status, await sum.text()]).toEqual([200, '4000'])
        const required = await post(`${url}/RequireSum`, { sum: 4_000 })
        expect([required.status, await required.text()]).toEqual([200, expect.any(String)])
      }
    })
    await Promise.all(sums).finally(() => {
      isOver = true
    })
    await Promise.all(transfers)
  })

  it('two gateway processes answer every request of one client at one process, while the other process is busy', async () => {
    let isOver = false
    const busy = { answered: 0 }
    const clients = Array.from({ length: 16 }, async () => {
      while (!isOver) {
        const reply = await post(`${gatewayOf(0)}/counting/api/Count`, { counter: 'c' })
        expect(reply.status).toBe(200)
        busy.answered += 1
      }
    })
    const paced = async () => {
      const transfer = { from: 't0', to: 't1', amount: 1 }
      for (let n = 0; n < 16; n += 1) {
        expect((await post(`${gatewayOf(1)}/counting/api/Transfer`, transfer)).status).toBe(200)
      }
    }
    await paced().finally(() => {
      isOver = true
    })
    await Promise.all(clients)
    expect(busy.answered).toBeGreaterThan(16)
  })

  it('two gateway processes record one of two archives that are deployed at once under one name, and refuse the other', async () => {
    const headers = { 'content-type': 'application/octet-stream' }
    for (const name of ['one', 'two', 'three']) {
      const archives = [1, 10].map((step) => {
        const folder = writeNetwork(temporaryFolder(afterAll), step)
        const path = join(folder, 'package.json')
        writeFileSync(path, JSON.stringify({ name, version: `${step}.0.0`, description: 'x' }))
        return new Uint8Array(requireDefinition(readNetwork(folder)).archive)
      })
      const replies = await Promise.all(
        archives.map((body, n) =>
          fetch(`${gatewayOf(n)}/networks`, { method: 'POST', headers, body }),
        ),
      )
      const texts = await Promise.all(replies.map((reply) => reply.text()))
      expect(replies.map(({ status }) => status).sort()).toEqual([200, 409])
      const winner = replies.findIndex(({ status }) => status === 200)
      expect(texts[1 - winner]).toContain('NETWORK_EXISTS')
      const { version } = JSON.parse(texts[winner] ?? '')
      for (const n of [0, 1]) {
        const listed = JSON.parse(await (await fetch(`${gatewayOf(n)}/networks`)).text())
        const found = listed.find((each: { name: string }) => each.name === name)
        expect(found.version).toBe(version)
      }
    }
  })

  it('two gateway processes refuse an identity at one process as soon as the other process has revoked it', async () => {
    const { participant, url } = {
      participant: 'resource:org.hyperledger.composer.system.NetworkAdmin#admin',
      url: (n: number) => `${gatewayOf(n)}/counting/api`,
    }
    for (const n of [0, 1, 0, 1]) {
      const identity = { participant, userID: `u${performance.now()}` }
      const issued = await post(`${url(n)}/system/identities/issue`, identity)
      const { userSecret } = JSON.parse(await issued.text())
      const headers = { authorization: `Bearer ${userSecret}` }
      const read = () => fetch(`${url(n + 1)}/Counter`, { headers })
      expect((await read()).status).toBe(200)
      const identities = JSON.parse(await (await fetch(`${url(n)}/system/identities`)).text())
      const { identityId } = identities.find(
        ({ name }: { name: string }) => name === identity.userID,
      )
      const revoke = await post(`${url(n)}/system/identities/${identityId}/revoke`, {})
      expect(revoke.status).toBeLessThan(300)
      expect((await read()).status).toBe(401)
    }
  })

  it('two gateway processes record the default network once, with its first change', async () => {
    const replies = await Promise.all(
      [0, 1, 2, 3].map((n) =>
        post(`${gatewayOf(n)}/api/Trader`, { tradeId: `t${n}`, firstName: 'a', lastName: 'b' }),
      ),
    )
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    const traders = await (await fetch(`${gatewayOf(1)}/api/Trader`)).text()
    expect(JSON.parse(traders)).toHaveLength(4)
  })

  it('two gateway processes send the events of both processes, in order, to listeners at each process', async () => {
    const before = await valueAt(0)
    const received = await Promise.all(
      [0, 1].map(async (n) => {
        const socket = new WebSocket(`${gatewayOf(n).replace('http', 'ws')}/counting`)
        const values: number[] = []
        socket.on('message', (data) => values.push(JSON.parse(String(data)).value))
        await new Promise((resolve) => socket.once('open', resolve))
        return { socket, values }
      }),
    )
    for (let n = 0; n < 10; n += 1) await countAt(n)
    const expected = Array.from({ length: 10 }, (_, n) => before + n + 1)
    for (const { socket, values } of received) {
      await until('all events have arrived', () => values.length >= 10, WAIT_MS)
      expect(values).toEqual(expected)
      socket.terminate()
    }
  })

  it('two gateway processes apply an upgrade at one process to the next transaction at the other process', async () => {
    const before = await valueAt(0)
    const headers = { 'content-type': 'application/octet-stream' }
    const reply = await fetch(`${gatewayOf(0)}/networks/counting`, {
      ...{ method: 'PUT', headers, body: archive(1) },
    })
    expect(reply.status).toBe(200)
    await countAt(1)
    expect(await valueAt(0)).toBe(before + 10)
  })

  it('no longer serve a network, nor its events, at one process after the other process removed it', async () => {
    const socket = new WebSocket(`${gatewayOf(0).replace('http', 'ws')}/counting`)
    await new Promise((resolve) => socket.once('open', resolve))
    const closed = new Promise((resolve) => socket.once('close', resolve))
    const reply = await fetch(`${gatewayOf(1)}/networks/counting`, { method: 'DELETE' })
    expect(reply.status).toBeLessThan(300)
    expect((await fetch(`${gatewayOf(0)}/counting/api/Counter`)).status).toBe(410)
    expect(await closed).toBe(1001)
  })
})
