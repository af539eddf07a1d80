// Kills a real `daicho serve` under load at random moments. After each restart, acknowledged changes are complete,
// and each unacknowledged request is complete or has no effect.
import { Agent } from 'node:http'
import { describe, expect, it } from 'vitest'
import { runDaicho, type ServedLedger, serveLedger } from '../support/daicho.ts'
import { isOnDatabases, locationOf } from '../support/engine.ts'
import { Dice, itemsOf, LoadClient, send, Unanswered } from '../support/ledger-load.ts'
import { temporaryFolder, verifyFolder } from '../support/ledger-node.ts'
import { roundsOf } from '../support/rounds.ts'

const KILLS = roundsOf(20)
const CLIENTS = 32
/** Maximum number of replies before a kill. Databases, which are slower, give fewer in the same time. */
const ANSWERS_MAX = isOnDatabases() ? 300 : 800
/** Number of entries of an atomic request: the maximum, or on databases, enough to be hit by kills. */
const ENTRIES = isOnDatabases() ? 3_000 : 10_000
const DATABASES = ['fruit', 'tools', 'notes', '台帳']
/**
 * Maximum delay between an acknowledgement and the next kill, milliseconds. Kills within this time hit requests in
 * every phase.
 */
const AFTER_ACKNOWLEDGED_MS = 12

const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000_000)
console.log(`CRASH_SEED=${seed} repeats this run`)

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

async function kill(server: ServedLedger): Promise<void> {
  server.child.kill('SIGKILL')
  expect((await server.ended).stderr).toBe('')
}

async function expectVerified(folder: string): Promise<void> {
  const { code, stdout, stderr } = await runDaicho(['verify', await locationOf(folder), '--json'])
  expect([code, stdout, stderr]).toEqual([
    0,
    expect.stringMatching(/^\{"status":true,.*"finding":null,.*\}\n$/),
    expect.any(String),
  ])
}

async function read(url: string) {
  return JSON.parse(await (await fetch(url)).text())
}

async function createDatabases(url: string): Promise<void> {
  for (const db of DATABASES)
    expect((await fetch(`${url}/api/${encodeURIComponent(db)}`, { method: 'POST' })).status).toBe(
      200,
    )
}

function makeClients(dice: Dice): LoadClient[] {
  return Array.from({ length: CLIENTS }, (_, at) => {
    const db = DATABASES[at % DATABASES.length] ?? ''
    return new LoadClient(`c${at}`, db, new Dice(dice.below(2 ** 31)))
  })
}

/**
 * Compares the items of each client with the databases. Returns how many requests without a reply were
 * committed, and how many were not.
 */
async function settleAll(
  url: string,
  clients: readonly LoadClient[],
): Promise<{ done: number; undone: number }> {
  const counted = { nothing: 0, done: 0, undone: 0 }
  for (const [at, db] of DATABASES.entries()) {
    const stored = await itemsOf(url, db)
    const own = clients.filter((_, index) => index % DATABASES.length === at)
    for (const client of own) counted[client.settle(stored)] += 1
  }
  return counted
}

describe.concurrent('SIGKILL', () => {
  it(`loses no acknowledged write and stores no request in part, through ${KILLS} kills under load`, async ({
    onTestFinished,
  }) => {
    const dice = new Dice(seed)
    const folder = temporaryFolder(onTestFinished)
    const clients = makeClients(dice)
    let server = await serveLedger(folder)
    await createDatabases(server.url)
    const inFlight = { done: 0, undone: 0 }

    for (let round = 0; round < KILLS; round += 1) {
      let answersLeft = 1 + dice.below(ANSWERS_MAX)
      let reached: () => void = () => {}
      const enough = new Promise<void>((resolve) => {
        reached = resolve
      })
      const running = clients.map((client) =>
        client.run(server.url, () => {
          answersLeft -= 1
          if (answersLeft === 0) reached()
        }),
      )
      await Promise.race([enough, Promise.all(running)])
      await pause(dice.next() * AFTER_ACKNOWLEDGED_MS)
      await kill(server)
      await Promise.all(running)

      // Verifies the folder before the restart in even rounds, and after the restart in odd rounds. Two of ten rounds
      // also run `daicho verify`.
      if (round % 2 === 0) expect((await verifyFolder(folder)).finding).toBeNull()
      if (round % 10 === 4) await expectVerified(folder)
      server = await serveLedger(folder)
      const verified = round % 10 === 5 ? expectVerified(folder) : Promise.resolve()
      if (round % 2 === 1) expect((await verifyFolder(folder)).finding).toBeNull()
      const { done, undone } = await settleAll(server.url, clients)
      inFlight.done += done
      inFlight.undone += undone
      await verified
    }

    await kill(server)
    await expectVerified(folder)
    const acknowledged = clients.reduce((sum, client) => sum + client.acknowledged, 0)
    console.log(
      `${KILLS} kills: ${acknowledged} acknowledged, all there; in flight ${inFlight.done} done, ${inFlight.undone} not`,
    )
    expect(acknowledged).toBeGreaterThan(KILLS)
  })

  it(`during an atomic request of ${ENTRIES} entries leaves all entries or none`, async ({
    onTestFinished,
  }) => {
    const dice = new Dice(seed + 1)
    const folder = temporaryFolder(onTestFinished)
    let server = await serveLedger(folder)
    const seen = { all: 0, none: 0 }
    const item = (at: number) => ({ id: `i${at}`, at, text: 'x'.repeat(40) })
    const units = {
      list: (db: string) => ({
        path: `/api/${db}`,
        body: Array.from({ length: ENTRIES }, (_, at) => item(at)),
      }),
      ledgers: (db: string) => ({
        path: '/api/ledgers',
        body: {
          entries: Array.from({ length: ENTRIES }, (_, at) =>
            at === 0
              ? { method: 'create_db', db: `${db}-too` }
              : { method: 'create_item', db, item: item(at - 1) },
          ),
        },
      }),
    }
    const agent = new Agent()
    const ask = (db: string, kind: 'list' | 'ledgers') =>
      send(server.url, agent, { method: 'POST', ...units[kind](db) })

    // Duration of a request of all entries without a kill, milliseconds.
    let wholeMs = 0
    for (const kind of ['list', 'ledgers'] as const) {
      await send(server.url, agent, { method: 'POST', path: `/api/calm-${kind}`, body: undefined })
      const startedMs = performance.now()
      expect((await ask(`calm-${kind}`, kind)).status).toBe(200)
      wholeMs = performance.now() - startedMs
    }

    for (let round = 0; round < roundsOf(6); round += 1) {
      const kind = round % 2 === 0 ? 'list' : 'ledgers'
      const db = `u${round}`
      await send(server.url, agent, { method: 'POST', path: `/api/${db}`, body: undefined })
      const answered = ask(db, kind).then(
        ({ status }) => status,
        (error: unknown) => {
          if (error instanceof Unanswered) return null
          throw error
        },
      )
      await pause(dice.next() * wholeMs * 1.2)
      await kill(server)
      const status = await answered
      server = await serveLedger(folder)
      const { items } = await read(`${server.url}/api/${db}`)
      const { dbs } = await read(`${server.url}/api/dbs`)
      const whole = kind === 'list' ? ENTRIES : ENTRIES - 1
      expect([0, whole]).toContain(items.length)
      expect(dbs.includes(`${db}-too`)).toBe(kind === 'ledgers' && items.length === whole)
      if (status !== null) expect([status, items.length]).toEqual([200, whole])
      seen[items.length === 0 ? 'none' : 'all'] += 1
    }
    await kill(server)
    await expectVerified(folder)
    console.log(
      `${roundsOf(6)} kills in atomic requests of ${Math.round(wholeMs)} ms: ${JSON.stringify(seen)}`,
    )
  })
})

it('SIGTERM under load ends the node with exit code 0 within 10 s, and loses no acknowledged write', async () => {
  const dice = new Dice(seed + 2)
  const folder = temporaryFolder()
  const clients = makeClients(dice)
  let server = await serveLedger(folder)
  await createDatabases(server.url)
  let answers = 0
  let reached: () => void = () => {}
  const enough = new Promise<void>((resolve) => {
    reached = resolve
  })
  const running = clients.map((client) =>
    client.run(server.url, () => {
      answers += 1
      if (answers === 500) reached()
    }),
  )
  await Promise.race([enough, Promise.all(running)])
  const askedMs = performance.now()
  server.child.kill('SIGTERM')
  const { code } = await server.ended
  const tookMs = performance.now() - askedMs
  await Promise.all(running)
  expect(code).toBe(0)
  expect(tookMs).toBeLessThan(10_000)

  await expectVerified(folder)
  server = await serveLedger(folder)
  await settleAll(server.url, clients)
  server.child.kill('SIGINT')
  expect((await server.ended).code).toBe(0)
  console.log(`SIGTERM under load: closed in ${Math.round(tookMs)} ms`)
})
