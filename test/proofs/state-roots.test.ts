// The state has one root, whoever computes it: the node, its mirror, a restored and an imported copy, and an
// implementation from the reference page. HISTORIES, MINUTES and SEED make a longer run.
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { toHex } from '../../src/chain/index.ts'
import { exportLines, importExport, PeerClient, restoreChain } from '../../src/ledger/core.ts'
import { recomputeState } from '../../src/ledger/log/recomputed-state.ts'
import { Mirror, pull } from '../../src/ledger/peers/mirror.ts'
import { parseNodeKey } from '../../src/ledger/peers/peer-list.ts'
import { openStoreReader } from '../../src/storage/index.ts'
import { locationOf } from '../support/engine.ts'
import { hasState } from '../support/hidden-items.ts'
import { modelRoot, replayBlocks, type StateModel } from '../support/independent-state.ts'
import { Dice } from '../support/ledger-load.ts'
import { type LedgerNode, startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'
import { roundsOf } from '../support/rounds.ts'
import { until } from '../support/until.ts'

const HISTORIES = Number(process.env.HISTORIES ?? roundsOf(100))
const SEED = Number(process.env.SEED ?? 1)
/** Minutes after which no further node is started. */
const MINUTES_MAX = Number(process.env.MINUTES ?? 60)
/** Histories of each node. Each continues the one before. */
const HISTORIES_PER_NODE = 10
/** Nodes at a time. They often wait for a signature. */
const NODES = 4
const DATABASES = ['d0', 'd1']
const NAMES = ['a', '10']

/** Kind and status of the requests. */
type Counts = Map<string, number>

/** Sends a random change, which the node may refuse. */
async function change(node: LedgerNode, dice: Dice, counts: Counts): Promise<void> {
  const db = DATABASES[dice.below(DATABASES.length)] ?? ''
  const id = `i${dice.below(4)}`
  const path = `/api/${db}/${id}`
  const attachment = `${path}/attachments/${NAMES[dice.below(NAMES.length)]}`
  const item = { id, n: dice.next() }
  const send = async (
    kind: string,
    method: string,
    to: string,
    ...body: [body?: unknown, headers?: Record<string, string>]
  ) => {
    const { status, text } = await node.send(method, to, ...body)
    if (status === 500) throw new Error(`${method} ${to}: ${status} ${text}`)
    const counted = `${kind} ${status}`
    counts.set(counted, (counts.get(counted) ?? 0) + 1)
  }
  const kind = dice.below(48)
  if (kind === 0) await send('delete database', 'DELETE', `/api/${db}`)
  else if (kind < 4) await send('create database', 'POST', `/api/${db}`)
  else if (kind < 7) await send('delete item', 'DELETE', path)
  else if (kind < 11) await send('erase', 'POST', `${path}/erase`)
  else if (kind < 13)
    await send('erase deleted', 'POST', '/api/config/erasures', { db, deleted: true })
  else if (kind < 18) await send('delete attachment', 'DELETE', attachment)
  else if (kind < 27) {
    await send('attachment', 'PUT', attachment, `${dice.next()}`, { 'content-type': 'text/plain' })
  } else if (kind < 32) {
    const entries = [
      { method: 'delete_item', db, id },
      { method: 'create_item', db, item },
      { method: 'update_item', db, item: { ...item, n: 0 } },
      { method: 'create_item', db, item: { n: 1 } },
    ]
    await send('unit', 'POST', '/api/ledgers', { entries: entries.slice(dice.below(2)) })
  } else if (kind < 39) await send('create item', 'POST', `/api/${db}`, item)
  else await send('change item', 'POST', path, { n: dice.next() })
}

/** Returns the root of the state that is recomputed from the store of a folder. */
async function rootOfFolder(folder: string, size: number): Promise<string> {
  const store = await openStoreReader(folder, { frozen: false })
  const { root } = await recomputeState(store, size)
  await store.close()
  return toHex(root)
}

async function imported(folder: string, target: string): Promise<void> {
  copyFileSync(join(folder, 'node.key'), join(target, 'node.key'))
  const store = await openStoreReader(await locationOf(folder), { frozen: false })
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for await (const text of exportLines(store, folder, () => {})) yield Buffer.from(text)
  }
  await importExport({ folder: target, chunks: chunks(), progress: () => {} })
  await store.close()
}

async function restored(folder: string, target: string, { url, service }: LedgerNode) {
  copyFileSync(join(folder, 'node.key'), join(target, 'node.key'))
  const { serverId } = service
  await restoreChain({
    ...{ folder: target, serverId, vkey: null, threads: 1, clock: systemClock },
    source: () => new PeerClient({ url, serverId, allowPrivate: true }),
    progress: () => {},
  })
}

/** Returns the root of the state of the copy that `copy` writes to a new folder. */
async function rootOfCopy(size: number, copy: (target: string) => Promise<void>): Promise<string> {
  const target = mkdtempSync(join(tmpdir(), 'daicho-test-'))
  try {
    await copy(target)
    return await rootOfFolder(target, size)
  } finally {
    rmSync(target, { recursive: true })
  }
}

interface NotedState {
  readonly note: string
  readonly size: number
  readonly root: string
}

/** Compares the states of former heights with those that are computed after all erasures, also by a mirror. */
async function compareLate(
  node: LedgerNode,
  folder: string,
  notes: readonly NotedState[],
): Promise<void> {
  const { serverId } = node.service
  const { key } = parseNodeKey(node.service.log.verifierKey)
  const mirror = await Mirror.open({ folder, serverId, key, durable: false })
  await pull(mirror, new PeerClient({ url: node.url, serverId, allowPrivate: true }))
  for (const { note, size, root } of notes) {
    await mirror.compareState(note)
    expect([size, mirror.evidence]).toEqual([size, null])
    expect([size, await rootOfFolder(folder, size)]).toEqual([size, root])
  }
  expect(notes.length === 0 || hasState(folder)).toBe(true)
  await mirror.close()
}

/** Returns the signed state. A busy machine may sign it late. */
async function signedState(node: LedgerNode): Promise<string> {
  let note = ''
  await until('the state is signed', async () => {
    const { status, text } = await node.send('GET', `/api/ledgers/${node.service.serverId}/state`)
    expect([status, text]).toEqual([status === 503 ? 503 : 200, expect.any(String)])
    note = text
    return status === 200
  })
  return note
}

/** Compares the roots after each of some histories of one node. */
async function compareRoots(histories: number, dice: Dice, counts: Counts): Promise<void> {
  const removals: (() => void)[] = []
  const folder = () => temporaryFolder((remove) => removals.push(remove))
  const folders = [folder(), folder(), folder()] as const
  const node = await startLedgerNode({ folder: folders[0] })
  const { serverId } = node.service
  const { key } = parseNodeKey(node.service.log.verifierKey)
  const mirror = await Mirror.open({ folder: folders[1], serverId, key, durable: false })
  const source = new PeerClient({ url: node.url, serverId, allowPrivate: true })
  const model: StateModel = new Map()
  const notes: NotedState[] = []
  let size = 0
  for (let n = 0; n < histories; n += 1) {
    for (const db of DATABASES) if (dice.below(2) === 0) await node.send('POST', `/api/${db}`)
    for (let left = 4 + dice.below(16); left > 0; left -= 1) await change(node, dice, counts)
    const note = await signedState(node)
    const [, blocks = '', signed = ''] = note.split('\n')
    const path = `/api/ledgers?serverid=${serverId}&proof=1&offset=${size}`
    replayBlocks(model, (await node.send('GET', path)).json.ledgers)
    size = Number(blocks)
    const root = modelRoot(model).toString('hex')
    expect(Buffer.from(signed, 'base64').toString('hex')).toBe(root)
    await pull(mirror, source)
    await mirror.compareState(note)
    expect([mirror.evidence, size === 0 || hasState(folders[1])]).toEqual([null, true])
    const restore = (target: string) => restored(folders[0], target, node)
    expect(await rootOfCopy(size, restore)).toBe(root)
    expect(await rootOfCopy(size, (target) => imported(folders[0], target))).toBe(root)
    notes.push({ note, size, root })
  }
  await mirror.close()
  await compareLate(node, folders[2], notes)
  expect(await rootOfFolder(folders[1], size)).toBe(notes.at(-1)?.root)
  await node.close()
  for (const remove of removals) remove()
}

it('the state has one root at the node, its mirror, a restored and an imported copy, and by the reference page, also of former heights after erasures', async () => {
  const counts: Counts = new Map()
  let seed = SEED
  let left = HISTORIES
  const endMs = performance.now() + MINUTES_MAX * 60_000
  const compareSome = async () => {
    while (left > 0 && performance.now() < endMs) {
      const histories = Math.min(left, HISTORIES_PER_NODE)
      left -= histories
      seed += 1
      await compareRoots(histories, new Dice(seed), counts)
    }
  }
  await Promise.all(Array.from({ length: NODES }, compareSome))
  if (process.env.HISTORIES !== undefined) console.log(HISTORIES - left, counts)
  // A long run that never makes these changes would prove nothing. A short run may miss some of them.
  const required = HISTORIES >= 100 ? ['attachment 200', 'erase 200', 'unit 200'] : []
  expect([...counts.keys()]).toEqual(expect.arrayContaining(required))
})
