// A real `daicho serve` is killed while requests with idempotency keys are under way, and each is sent
// again until it is answered: it was applied once, whether the kill came before its commit, between
// the commit and the answer, or after.
import { expect, it } from 'vitest'
import { openStoreReader } from '../../src/storage/index.ts'
import { type ServedLedger, serveLedger } from '../support/daicho.ts'
import { Dice } from '../support/ledger-load.ts'
import { temporaryFolder, verifyFolder } from '../support/ledger-node.ts'

const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000_000)
console.log(`CRASH_SEED=${seed} repeats this run`)

const KILLS = 6
const CLIENTS = 16
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** The answer, or null when the connection broke. */
async function create(url: string, key: string): Promise<{ id: string; etag: string } | null> {
  try {
    const reply = await fetch(`${url}/api/fruit`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': `"${key}"` },
      body: JSON.stringify({ key }),
    })
    expect([reply.status, key]).toEqual([200, key])
    const { id } = JSON.parse(await reply.text())
    return { id, etag: reply.headers.get('etag') ?? '' }
  } catch (error) {
    // What fetch says of a connection that broke, or was never made.
    if (error instanceof TypeError) return null
    throw error
  }
}

async function kill(server: ServedLedger): Promise<void> {
  server.child.kill('SIGKILL')
  await server.ended
}

async function itemsIn(url: string): Promise<{ id: string; key: string }[]> {
  return JSON.parse(await (await fetch(`${url}/api/fruit?docs=1`)).text()).docs
}

it('a request that was committed and never answered is answered when it is sent again, and applied once', async () => {
  const folder = temporaryFolder()
  let server = await serveLedger(folder)
  await fetch(`${server.url}/api/fruit`, { method: 'POST' })
  const store = openStoreReader(folder, { frozen: false })
  // The reply may still reach the socket; the client is one that is gone by then.
  const unheard = create(server.url, 'once')
  let height = 0
  while (height === 0) {
    store.refresh()
    height = (await store.head(store.serverId))?.height ?? 0
    await pause(0)
  }
  await kill(server)
  await unheard
  await store.close()

  server = await serveLedger(folder)
  const first = await create(server.url, 'once')
  expect(first).toEqual({ id: expect.any(String), etag: '"1.0"' })
  expect(await create(server.url, 'once')).toEqual(first)
  expect(await itemsIn(server.url)).toEqual([{ id: first?.id, key: 'once' }])
  await kill(server)
  expect((await verifyFolder(folder)).finding).toBeNull()
}, 60_000)

it(`${KILLS} kills under load, every request sent again until it is answered: each was applied once`, async () => {
  const dice = new Dice(seed)
  const folder = temporaryFolder()
  let server = await serveLedger(folder)
  await fetch(`${server.url}/api/fruit`, { method: 'POST' })
  const answers = new Map<string, { id: string; etag: string }>()
  const waiting: string[] = Array.from({ length: CLIENTS }, () => '')
  let made = 0
  let done = 0

  for (let round = 0; round < KILLS; round += 1) {
    const { url } = server
    const clients = waiting.map(async (unanswered, at) => {
      let key = unanswered
      for (;;) {
        if (key === '') {
          made += 1
          key = `${at}-${made}`
        }
        waiting[at] = key
        const answer = await create(url, key)
        if (answer === null) return
        answers.set(key, answer)
        key = ''
      }
    })
    await pause(50 + dice.below(200))
    await kill(server)
    await Promise.all(clients)
    expect((await verifyFolder(folder)).finding).toBeNull()
    server = await serveLedger(folder)
    const stored = new Set((await itemsIn(server.url)).map(({ key }) => key))
    done += waiting.filter((key) => stored.has(key)).length
  }

  for (const key of waiting) {
    const answer = await create(server.url, key)
    expect(answer).not.toBeNull()
    if (answer !== null) answers.set(key, answer)
  }
  const items = await itemsIn(server.url)
  expect(new Map(items.map(({ key, id }) => [key, id]))).toEqual(
    new Map([...answers].map(([key, { id }]) => [key, id])),
  )
  expect(items).toHaveLength(answers.size)
  await kill(server)
  expect((await verifyFolder(folder)).finding).toBeNull()
  console.log(
    `${KILLS} kills: ${items.length} requests, each once; ${done} were committed unanswered`,
  )
}, 60_000)
