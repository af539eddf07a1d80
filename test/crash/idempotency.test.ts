// Kills a real `daicho serve` during requests with idempotency keys. A client repeats each request until it gets a
// reply. The node applies each request once, whether the kill came before the commit, between commit and reply, or
// later.
import { expect, it } from 'vitest'
import { openStoreReader } from '../../src/storage/index.ts'
import { type ServedLedger, serveLedger } from '../support/daicho.ts'
import { locationOf } from '../support/engine.ts'
import { Dice } from '../support/ledger-load.ts'
import { temporaryFolder, verifyFolder } from '../support/ledger-node.ts'
import { roundsOf } from '../support/rounds.ts'

const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000_000)
console.log(`CRASH_SEED=${seed} repeats this run`)

const KILLS = roundsOf(6)
const CLIENTS = 16
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Prefix of the keys of uploads. Keys of items have no prefix. */
const UPLOAD = 'upload-'

/** Sends a request. Returns its body and ledger position, or null if the connection broke. */
async function once(url: string, key: string): Promise<{ text: string; at: string } | null> {
  const header = { 'idempotency-key': `"${key}"` }
  const upload = key.startsWith(UPLOAD)
  try {
    const reply = upload
      ? await fetch(`${url}/api/fruit/plum/attachments/${key}`, {
          method: 'PUT',
          headers: { ...header, 'if-none-match': '*' },
          body: key.repeat(1_000),
        })
      : await fetch(`${url}/api/fruit`, {
          method: 'POST',
          headers: { ...header, 'content-type': 'application/json' },
          body: JSON.stringify({ key }),
        })
    expect([reply.status, key]).toEqual([200, key])
    const at = reply.headers.get('ledger-position')?.split('/')[1] ?? ''
    return { text: await reply.text(), at }
  } catch (error) {
    // `fetch` throws a TypeError if a connection breaks or is refused.
    if (error instanceof TypeError) return null
    throw error
  }
}

async function kill(server: ServedLedger): Promise<void> {
  server.child.kill('SIGKILL')
  await server.ended
}

async function prepare(url: string): Promise<void> {
  await fetch(`${url}/api/fruit`, { method: 'POST' })
  const headers = { 'content-type': 'application/json' }
  await fetch(`${url}/api/fruit`, { method: 'POST', headers, body: '{"id":"plum"}' })
}

/** Returns the ledger position of each request by its key. Fails if a request was applied twice. */
async function recordedIn(url: string): Promise<Map<string, string>> {
  const { serverid } = JSON.parse(await (await fetch(`${url}/api/serverid`)).text())
  const reply = await fetch(`${url}/api/ledgers?serverid=${serverid}&offset=2`)
  const found = new Map<string, string>()
  for (const [height, { body }] of JSON.parse(await reply.text()).ledgers.entries()) {
    for (const [index, { item, attachment }] of body.entries()) {
      const key = item?.key ?? attachment.name
      expect(found.has(key)).toBe(false)
      found.set(key, `${height + 2}.${index}`)
    }
  }
  return found
}

it.each(['item', `${UPLOAD}1`])(
  'a request (%s) that was stored but not answered before a kill is applied once, and gets its reply when it is repeated',
  async (key) => {
    const folder = temporaryFolder()
    let server = await serveLedger(folder)
    await prepare(server.url)
    const store = await openStoreReader(await locationOf(folder), { frozen: false })
    // The test ignores this reply, which the node can send before the kill.
    const unheard = once(server.url, key)
    let height = 0
    while (height < 2) {
      store.refresh()
      height = (await store.head(store.serverId))?.height ?? 0
      await pause(0)
    }
    await kill(server)
    await unheard
    await store.close()

    server = await serveLedger(folder)
    const first = await once(server.url, key)
    expect(first).toEqual({ text: expect.stringContaining('"status":true'), at: '2.0' })
    expect(await once(server.url, key)).toEqual(first)
    expect([...(await recordedIn(server.url))]).toEqual([[key, '2.0']])
    await kill(server)
    expect((await verifyFolder(folder)).finding).toBeNull()
  },
)

it(`applies each request once if the client repeats it until it gets a reply, through ${KILLS} kills under load`, async () => {
  const dice = new Dice(seed)
  const folder = temporaryFolder()
  let server = await serveLedger(folder)
  await prepare(server.url)
  const answers = new Map<string, string>()
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
          key = `${at % 4 === 0 ? UPLOAD : ''}${at}-${made}`
        }
        waiting[at] = key
        const answer = await once(url, key)
        if (answer === null) return
        answers.set(key, answer.at)
        key = ''
      }
    })
    await pause(50 + dice.below(200))
    await kill(server)
    await Promise.all(clients)
    expect((await verifyFolder(folder)).finding).toBeNull()
    server = await serveLedger(folder)
    const stored = await recordedIn(server.url)
    done += waiting.filter((key) => stored.has(key)).length
  }

  for (const key of waiting) {
    const answer = await once(server.url, key)
    expect(answer).not.toBeNull()
    if (answer !== null) answers.set(key, answer.at)
  }
  const recorded = await recordedIn(server.url)
  expect(recorded).toEqual(answers)
  await kill(server)
  expect((await verifyFolder(folder)).finding).toBeNull()
  console.log(
    `${KILLS} kills: ${recorded.size} requests, each once; ${done} were committed without a reply`,
  )
})
