import { mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../base/clock.ts'
import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import {
  closedStoreIn,
  fileExists,
  holdFolder,
  openStoreReader,
  storePathIn,
  type Verification,
  verifyStore,
} from '../../storage/index.ts'
import { syncPath, writeDurably } from '../durable-file.ts'
import { signedHeadIn } from '../log/signed-head.ts'
import { existingNodeKey, type NodeKey, nodeKeyIn } from '../node-key.ts'
import { PeerError } from './errors.ts'
import { nodeOfKey } from './peer.ts'
import { mirrorFolder, VKEY_FILE } from './places.ts'
import type { PullProgress } from './pull.ts'
import { rebuildDatabases } from './rebuild.ts'

/** In a data folder: that its databases come from the chain of another node, and how far that is. */
const NOTE_FILE = 'restored.json'
/** Where the new chain is built; removed when that begins and when it ends. */
const SIDE_FOLDER = 'rebuild.partial'

/** What comes back under a new chain, and where to. */
export interface NewChainOptions {
  /** A data folder without key and store, or one that an earlier run has begun. */
  readonly folder: string
  /** The verifier key of the chain that the data are in. */
  readonly vkey: string
  readonly clock: Clock
  /** Leading zeros that ids of the new blocks shall have, 0..4. */
  readonly difficulty: number
  /** Threads that recompute what was fetched. */
  readonly threads: number
  readonly progress: PullProgress
}

/** What came back. */
export interface NewChain {
  /** The chain that the data were in, which is a mirror now. */
  readonly mirrored: Verification
  /** The new one. */
  readonly own: Verification
  /** Contents of current attachments that were nowhere: these attachments did not come back. */
  readonly absent: number
}

/** What the note says: the chain that is mirrored, and the last block that was made of it, when it was. */
interface Note {
  readonly mirrored: number
  readonly height: number | null
  readonly id: string | null
  readonly absent: number
}

/**
 * Brings data back whose key is lost: `fill` makes or completes the mirror of their chain in the folder
 * that it is given; when that holds, its databases become the first blocks of a chain of a new key.
 *
 * What a crash leaves, at each point:
 * - before the note: nothing.
 * - before the store has its name: the note, a key that has signed nothing, a mirror with whole pages of
 *   verified blocks, and contents of attachments that nothing names yet. The next run goes on with them.
 * - after it: the whole store. The note names its last block, by which the next run knows it.
 * Errors: those of `fill`; PeerError RESTORE_OVER_STORE, RESTORE_REFUSED; StoreError.
 */
export async function underNewChain(
  options: NewChainOptions,
  fill: (mirror: string, key: NodeKey) => Promise<void>,
): Promise<NewChain> {
  const { folder, vkey, threads } = options
  const { serverId } = nodeOfKey(vkey)
  const held = holdFolder(folder)
  try {
    const hasStore = fileExists(held.storePath) || fileExists(`${held.storePath}-wal`)
    const note = noteIn(folder)
    const isOurs = note !== null && note.mirrored === serverId
    if (!isOurs && (note !== null || hasStore || existingNodeKey(folder) !== null)) {
      throw overStore(folder)
    }
    const mirror = mirrorFolder(folder, serverId)
    if (hasStore) return await builtBefore(options, note, mirror)
    // It had a store, and has signed what was in there: another one would be its second history.
    if (signedHeadIn(folder).read() !== null) throw overStore(folder)
    if (note === null) keepNote(folder, { mirrored: serverId, height: null, id: null, absent: 0 })
    const key = nodeKeyIn(folder, true)
    mkdirSync(mirror, { recursive: true, mode: 0o700 })
    await fill(mirror, key)
    writeDurably(join(mirror, VKEY_FILE), `${vkey}\n`)
    const mirrored = await verified(mirror, threads)
    if (mirrored.finding !== null) {
      rmSync(mirror, { recursive: true, force: true })
      throw new PeerError('RESTORE_REFUSED', `what came does not hold: ${mirrored.finding.what}`)
    }
    const { own, absent } = await build(options, key, mirror)
    const height = own.blocks === 0 ? null : own.blocks - 1
    keepNote(folder, { mirrored: serverId, height, id: own.headId, absent })
    renameSync(storePathIn(join(folder, SIDE_FOLDER)), held.storePath)
    syncPath(folder)
    rmSync(join(folder, SIDE_FOLDER), { recursive: true, force: true })
    return { mirrored, own, absent }
  } finally {
    held.release()
  }
}

/** Builds the new store beside; when it resolves, all of it is on the disk, and holds. */
async function build(
  { folder, clock, difficulty, threads, progress }: NewChainOptions,
  { serverId }: NodeKey,
  mirror: string,
): Promise<Pick<NewChain, 'own' | 'absent'>> {
  const side = join(folder, SIDE_FOLDER)
  rmSync(side, { recursive: true, force: true })
  mkdirSync(side, { mode: 0o700 })
  const to = { side, folder, serverId }
  const { absent } = await rebuildDatabases(mirror, to, { clock, difficulty, progress })
  syncPath(closedStoreIn(side))
  const own = await verified(side, threads)
  if (own.finding === null) return { own, absent }
  throw new PeerError('RESTORE_REFUSED', `the new chain does not hold: ${own.finding.what}`)
}

async function verified(folder: string, threads: number): Promise<Verification> {
  const store = openStoreReader(folder, { frozen: true })
  try {
    return await verifyStore(store, threads > 1 ? { threads: { folder, count: threads } } : {})
  } finally {
    await store.close()
  }
}

/** Where an earlier run has ended after its last step: nothing is left to be done. */
async function builtBefore(
  { folder, threads }: NewChainOptions,
  note: Note | null,
  mirror: string,
): Promise<NewChain> {
  const store = openStoreReader(folder, { frozen: true })
  try {
    const { serverId } = store
    const height = note?.height ?? null
    const [block] = height === null ? [] : await store.blocks(serverId, height, 1)
    if (block?.height !== height || block?.id !== note?.id) throw overStore(folder)
  } finally {
    await store.close()
  }
  rmSync(join(folder, SIDE_FOLDER), { recursive: true, force: true })
  const [mirrored, own] = [await verified(mirror, threads), await verified(folder, threads)]
  return { mirrored, own, absent: note?.absent ?? 0 }
}

function overStore(folder: string): PeerError {
  return new PeerError(
    'RESTORE_OVER_STORE',
    `${folder} holds another node already, or its key: without the key of the chain, its data come ` +
      'back in an empty folder',
  )
}

function keepNote(folder: string, note: Note): void {
  writeDurably(join(folder, NOTE_FILE), `${JSON.stringify(note)}\n`)
}

/** Errors: RESTORE_OVER_STORE for a note that cannot be read. */
function noteIn(folder: string): Note | null {
  const path = join(folder, NOTE_FILE)
  if (!fileExists(path)) return null
  const { mirrored, height = null, id = null, absent } = membersOf(readFileSync(path, 'utf8'))
  const isNote =
    typeof mirrored === 'number' &&
    (height === null || typeof height === 'number') &&
    (id === null || typeof id === 'string') &&
    typeof absent === 'number'
  if (isNote) return { mirrored, height, id, absent }
  throw overStore(folder)
}

function membersOf(text: string): { readonly [name: string]: Json } {
  try {
    const value: Json = parseJson(text)
    return isJsonObject(value) ? value : {}
  } catch {
    return {}
  }
}
