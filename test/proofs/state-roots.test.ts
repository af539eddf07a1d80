// The state has one root, whoever computes it: the node, its mirror, a restored and an imported copy, and an
// implementation from the reference page.
import { copyFileSync } from 'node:fs'
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

const NODES = roundsOf(10)
/** Histories of each node. */
const HISTORIES = 5
const DATABASES = ['d0', 'd1', 'd2']
const NAMES = ['a', 'b.txt', '10']

async function change(node: LedgerNode, dice: Dice): Promise<void> {
  const db = DATABASES[dice.below(DATABASES.length)]
  const id = `i${dice.below(40)}`
  const path = `/api/${db}/${id}`
  const kind = dice.below(24)
  if (kind === 0) await node.send('DELETE', `/api/${db}`)
  else if (kind < 3) await node.send('POST', `/api/${db}`)
  else if (kind < 6) await node.send('DELETE', path)
  else if (kind < 8) await node.send('POST', `${path}/erase`)
  else if (kind < 12) {
    const method = dice.below(3) === 0 ? 'DELETE' : 'PUT'
    const headers = { 'content-type': 'text/plain' }
    const body = method === 'PUT' ? `${dice.next()}` : undefined
    await node.send(method, `${path}/${NAMES[dice.below(3)]}`, body, headers)
  } else if (kind < 16) await node.send('POST', `/api/${db}`, [{ id }, { n: dice.next() }])
  else await node.send('POST', path, { n: dice.next() })
}

/** Returns the root of the state that is recomputed from the store of a folder. */
async function rootOfFolder(folder: string, size: number): Promise<string> {
  const store = await openStoreReader(folder, { frozen: false })
  const { root } = await recomputeState(store, size)
  await store.close()
  return toHex(root)
}

async function imported(folder: string): Promise<string> {
  const target = temporaryFolder()
  copyFileSync(join(folder, 'node.key'), join(target, 'node.key'))
  const store = await openStoreReader(await locationOf(folder), { frozen: false })
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for await (const text of exportLines(store, folder, () => {})) yield Buffer.from(text)
  }
  await importExport({ folder: target, chunks: chunks(), progress: () => {} })
  await store.close()
  return target
}

async function restored(folder: string, { url, service }: LedgerNode): Promise<string> {
  const target = temporaryFolder()
  copyFileSync(join(folder, 'node.key'), join(target, 'node.key'))
  const { serverId } = service
  await restoreChain({
    ...{ folder: target, serverId, vkey: null, threads: 1, clock: systemClock },
    source: () => new PeerClient({ url, serverId, allowPrivate: true }),
    progress: () => {},
  })
  return target
}

interface NotedState {
  readonly note: string
  readonly size: number
  readonly root: string
}

/** Compares the states of former heights with those that are computed after all erasures, also by a mirror. */
async function compareLate(node: LedgerNode, notes: readonly NotedState[]): Promise<void> {
  const { serverId } = node.service
  const { key } = parseNodeKey(node.service.log.verifierKey)
  const folder = temporaryFolder()
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

/** Compares the roots after each of `histories` histories of one node, and those of copies after the last. */
async function compareRoots(histories: number, dice: Dice): Promise<void> {
  const folders = [temporaryFolder(), temporaryFolder()] as const
  const node = await startLedgerNode({ folder: folders[0] })
  const { serverId } = node.service
  const { key } = parseNodeKey(node.service.log.verifierKey)
  const mirror = await Mirror.open({ folder: folders[1], serverId, key, durable: false })
  const source = new PeerClient({ url: node.url, serverId, allowPrivate: true })
  const model: StateModel = new Map()
  const notes: NotedState[] = []
  let size = 0
  let root = ''
  for (let n = 0; n < histories; n += 1) {
    for (let left = dice.below(12); left >= 0; left -= 1) await change(node, dice)
    const { text } = await node.send('GET', `/api/ledgers/${serverId}/state`)
    const [, blocks = '', signed = ''] = text.split('\n')
    const path = `/api/ledgers?serverid=${serverId}&proof=1&offset=${size}`
    replayBlocks(model, (await node.send('GET', path)).json.ledgers)
    size = Number(blocks)
    root = modelRoot(model).toString('hex')
    expect(Buffer.from(signed, 'base64').toString('hex')).toBe(root)
    await pull(mirror, source)
    await mirror.compareState(text)
    expect([mirror.evidence, size === 0 || hasState(folders[1])]).toEqual([null, true])
    notes.push({ note: text, size, root })
  }
  await mirror.close()
  await compareLate(node, notes)
  expect(await rootOfFolder(folders[1], size)).toBe(root)
  expect(await rootOfFolder(await restored(folders[0], node), size)).toBe(root)
  await node.close()
  expect(await rootOfFolder(await imported(folders[0]), size)).toBe(root)
}

it('the state has one root at the node, its mirror, a restored and an imported copy, and by the reference page, also of former heights after erasures', async () => {
  for (let n = 0; n < NODES; n += 1) await compareRoots(HISTORIES, new Dice(n + 1))
})
