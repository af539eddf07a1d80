import { setTimeout as pause } from 'node:timers/promises'
import type { Operations } from '../../client/index.ts'
import { openStoreReader } from '../../storage/index.ts'
import { readSettings } from '../composition/settings.ts'
import { EXIT, Exit } from '../exit.ts'
import { callNode, type NodeAddress } from '../node/node-client.ts'
import { chooseStore, type FolderFlags, nodeFolder } from '../node/node-folder.ts'
import type { NodeFlags } from '../node/node-options.ts'
import { openStoppedNode } from '../node/stopped-node.ts'
import { print, withProgress } from '../output/output.ts'

/** Polling interval while an index is built. */
const POLL_MS = 200
/** Timeout without progress. A part of a million entries, which counts as progress, takes a minute on a slow disk. */
const STALLED_MS = 300_000

type IndexState = Operations['GET /api/config/indexes']['reply']['indexes'][number]

/** The indexes of a running node, or of a folder. */
interface Indexes {
  list(): Promise<readonly IndexState[]>
  change(action: 'add' | 'remove', db: string, path: string): Promise<void>
}

interface Flags extends NodeFlags, FolderFlags {
  readonly wait?: boolean
}

export async function runIndexList(flags: Flags): Promise<void> {
  const indexes = await withIndexes(flags, 'read', (opened) => opened.list())
  const lines = indexes.map(({ db, path, state, done, total }) => {
    const progress = state === 'ready' ? 'ready' : `building, ${done} of ${total} blocks`
    return `${db}  ${path}  ${progress}`
  })
  const text = lines.length === 0 ? 'there are no indexes' : lines.join('\n')
  print(flags.json, { status: true, indexes }, text)
}

export async function runIndexAdd(db: string, path: string, flags: Flags): Promise<void> {
  await withIndexes(flags, 'change', async (indexes) => {
    await indexes.change('add', db, path)
    if (flags.wait !== false) await waitUntilBuilt(indexes, db, path)
  })
  printIndex(flags, flags.wait === false ? 'declared' : 'ready', db, path)
}

export async function runIndexRemove(db: string, path: string, flags: Flags): Promise<void> {
  await withIndexes(flags, 'change', (indexes) => indexes.change('remove', db, path))
  printIndex(flags, 'removed', db, path)
}

function printIndex({ json }: Flags, index: string, db: string, path: string): void {
  print(json, { status: true, db, path, index }, `index on ${path} of ${db}: ${index}`)
}

async function waitUntilBuilt(indexes: Indexes, db: string, path: string): Promise<void> {
  await withProgress('indexing', async (line) => {
    const isStalled = stallDetector()
    for (;;) {
      const all = await indexes.list()
      const index = all.find((each) => each.db === db && each.path === path)
      if (index === undefined)
        throw new Exit(EXIT.finding, 'the index was removed while it was being built')
      const { state, done, total } = index
      line.update(total === 0 ? 1 : done / total, `${done} of ${total} blocks`)
      if (state === 'ready') return
      // Indexes are built one after the other, so the progress of another one counts.
      const building = all.filter((each) => each.state === 'building')
      const progress = building.map((each) => `${each.db} ${each.path} ${each.done}`).join()
      if (isStalled(progress, performance.now())) {
        const problem = `no index has grown for ${STALLED_MS / 1000} s; check the free disk space.`
        throw new Exit(EXIT.finding, `${problem} The node continues to build it`)
      }
      await pause(POLL_MS)
    }
  })
}

/** Returns a function that returns whether `progress` has been the same for longer than STALLED_MS. */
export function stallDetector(): (progress: string, nowMs: number) => boolean {
  let last: { readonly progress: string; readonly atMs: number } | null = null
  return (progress, nowMs) => {
    if (progress !== last?.progress) last = { progress, atMs: nowMs }
    return nowMs - last.atMs > STALLED_MS
  }
}

/**
 * Runs `work` on the indexes of the running node at `url`, or of the node in SYSTEM_FOLDER. With `access` read, that
 * node may be running.
 */
async function withIndexes<Result>(
  flags: Flags,
  access: 'read' | 'change',
  work: (indexes: Indexes) => Promise<Result>,
): Promise<Result> {
  const { url, token } = flags
  if (url !== undefined) return work(remoteIndexes({ url, token }))
  const settings = readSettings(process.env)
  const folder = nodeFolder(settings, { mayBeNew: false })
  if (access === 'read') {
    const store = await openStoreReader(chooseStore(settings, folder, flags), { frozen: false })
    const list = async () => (await store.indexes()).map(toIndexState)
    return work({ list, change: async () => {} }).finally(() => store.close())
  }
  const { service, close } = await openStoppedNode(settings, folder, flags)
  return work({
    list: async () => (await service.read.indexes()).map(toIndexState),
    change: (action, db, path) => service.write.changeIndex(action, { db, path }),
  }).finally(close)
}

function toIndexState(
  index: Omit<IndexState, 'state'> & { readonly isReady: boolean },
): IndexState {
  const { db, path, isReady, done, total } = index
  return { db, path, state: isReady ? 'ready' : 'building', done, total }
}

function remoteIndexes(node: NodeAddress): Indexes {
  return {
    list: async () => (await callNode(node, 'GET /api/config/indexes', {})).indexes,
    change: async (action, db, path) => {
      const method = action === 'add' ? 'POST' : 'DELETE'
      await callNode(node, `${method} /api/config/indexes`, { body: { db, path } })
    },
  }
}
