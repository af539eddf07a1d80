// Kills a real `daicho serve` under load while clients read its checkpoints and signed states. No two published
// checkpoints contradict each other, and all match the final history. Each state is the one of its blocks.
import { expect, it } from 'vitest'
import {
  type Checkpoint,
  nodeVerifySignature,
  openCheckpoint,
  openState,
  parseVerifierKey,
  toHex,
  verifyConsistency,
} from '../../src/chain/index.ts'
import { recomputeState } from '../../src/ledger/log/recomputed-state.ts'
import { openStoreReader } from '../../src/storage/index.ts'
import { type ServedLedger, serveLedger } from '../support/daicho.ts'
import { locationOf } from '../support/engine.ts'
import { Dice, itemsOf, LoadClient } from '../support/ledger-load.ts'
import { temporaryFolder, verifyFolder } from '../support/ledger-node.ts'
import { roundsOf } from '../support/rounds.ts'

const KILLS = roundsOf(8)
const CLIENTS = 12
const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000_000)
console.log(`CRASH_SEED=${seed} repeats this run`)

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

async function textAt(url: string): Promise<string | null> {
  try {
    const reply = await fetch(url)
    const text = await reply.text()
    return reply.status === 200 ? text : null
  } catch {
    return null
  }
}

it(`publishes only checkpoints that continue every earlier checkpoint, through ${KILLS} kills under load`, async () => {
  const dice = new Dice(seed)
  const folder = temporaryFolder()
  const clients = Array.from(
    { length: CLIENTS },
    (_, at) => new LoadClient(`c${at}`, 'fruit', dice),
  )
  let server: ServedLedger = await serveLedger(folder)
  expect((await fetch(`${server.url}/api/fruit`, { method: 'POST' })).status).toBe(200)
  const { serverid } = JSON.parse((await textAt(`${server.url}/api/serverid`)) ?? '{}')
  const log = () => `${server.url}/api/ledgers/${serverid}`
  const key = parseVerifierKey(((await textAt(`${log()}/vkey`)) ?? '').trim())
  const notes = new Set<string>()
  const heads: Checkpoint[] = []
  /** The last signed state before each kill, and the first one after it. */
  const states: string[] = []

  for (let round = 0; round < KILLS; round += 1) {
    let answersLeft = 50 + dice.below(600)
    let reached: () => void = () => {}
    const enough = new Promise<void>((resolve) => {
      reached = resolve
    })
    // Each round continues until a checkpoint is published, so that it checks at least one on a slow computer too.
    let given = 0
    const count = () => {
      if (answersLeft <= 0 && given > 0) reached()
    }
    const running = clients.map((client) =>
      client.run(server.url, () => {
        answersLeft -= 1
        count()
      }),
    )
    let reading = true
    const readers = Array.from({ length: 3 }, async () => {
      for (let size = 0; reading; ) {
        const note = await textAt(`${log()}/checkpoint`)
        // `note` is null if the busy node has not signed yet (LOG_BEHIND), or if it was killed.
        if (note === null) await pause(10)
        if (note === null || notes.has(note)) continue
        notes.add(note)
        const head = await openCheckpoint(nodeVerifySignature, key, note)
        expect(head.size).toBeGreaterThanOrEqual(size)
        size = head.size
        heads.push(head)
        given += 1
        count()
      }
    })
    let state: string | null = null
    const stateReader = async () => {
      while (reading) {
        const note = await textAt(`${log()}/state`)
        if (note !== null && state === null) states.push(note)
        if (note === null) await pause(10)
        else state = note
      }
    }
    readers.push(stateReader())
    await Promise.race([enough, Promise.all(running)])
    server.child.kill('SIGKILL')
    await server.ended
    reading = false
    await Promise.all([...running, ...readers])
    if (state !== null) states.push(state)
    if (round % 3 === 2) expect((await verifyFolder(folder)).finding).toBeNull()
    server = await serveLedger(folder)
    const stored = await itemsOf(server.url, 'fruit')
    for (const client of clients) client.settle(stored)
  }

  const last = await openCheckpoint(
    nodeVerifySignature,
    key,
    (await textAt(`${log()}/checkpoint`)) ?? '',
  )
  const sorted = [...heads, last].toSorted((a, b) => a.size - b.size)
  expect(sorted.at(-1)?.size).toBe(last.size)
  expect(sorted.length).toBeGreaterThan(KILLS)
  for (const [at, head] of sorted.entries()) {
    const next = sorted[at + 1] ?? last
    const reply = await textAt(`${log()}/consistency?from=${head.size}&to=${next.size}`)
    const proof = JSON.parse(reply ?? '{}').proof.map((hash: string) => Buffer.from(hash, 'base64'))
    expect(verifyConsistency(head, next, proof)).toBe(true)
  }
  const store = await openStoreReader(await locationOf(folder), { frozen: false })
  states.push((await textAt(`${log()}/state`)) ?? '')
  for (const note of states) {
    const signed = await openState(nodeVerifySignature, key, note)
    const { size, root, log: logRoot } = await recomputeState(store, signed.size)
    expect([size, toHex(root), toHex(logRoot)]).toEqual([
      ...[signed.size, toHex(signed.root), toHex(signed.log)],
    ])
  }
  await store.close()
  console.log(
    `${KILLS} kills: ${heads.length} heads given out, up to ${last.size} blocks, and ${states.length} states, all consistent`,
  )
  server.child.kill('SIGKILL')
  await server.ended
})
