import { mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import {
  closedStoreIn,
  EffectError,
  fileExists,
  holdFolder,
  openStore,
  type Store,
  storePathIn,
} from '../../storage/index.ts'
import { syncPath } from '../durable-file.ts'
import { existingNodeKey } from '../node-key.ts'
import { isSignedMirror } from '../peers/mirror.ts'
import { type NewChain, type NewChainOptions, underNewChain } from '../peers/new-chain.ts'
import { nodeOfKey } from '../peers/peer.ts'
import { damagedExport, ExportError } from './errors.ts'
import type { ExportEnd, ExportHeader } from './format.ts'
import { type ReadBlock, readExport } from './read-export.ts'
import type { ExportProgress } from './write-export.ts'

/** Where a store is built; removed when an import begins and when it ends. */
const SIDE_FOLDER = 'import.partial'

/** What to import, and where to. */
export interface ImportOptions {
  /** A data folder that holds the key of the chain's node, and no store. */
  readonly folder: string
  /** The bytes of an export. */
  readonly chunks: AsyncIterable<Uint8Array>
  readonly progress: ExportProgress
}

/**
 * Makes the store of a node from an export of it: the chain as it was, and the databases that it
 * gives. The node then continues the chain.
 *
 * What a crash leaves, at each point:
 * - before the rename: a folder without a store, as it was, and beside the key a side folder that
 *   nothing reads and the next import removes.
 * - after it: the whole store. It was on the disk before it got its name.
 * Errors: ExportError, StoreError (FOLDER_IN_USE, STORE_FULL …), LedgerError (a key that is none).
 */
export async function importExport(options: ImportOptions): Promise<ExportHeader & ExportEnd> {
  const { folder } = options
  const held = holdFolder(folder)
  const side = join(folder, SIDE_FOLDER)
  try {
    // A log without its store would be taken for that of the new one.
    if (fileExists(held.storePath) || fileExists(`${held.storePath}-wal`)) {
      throw new ExportError(
        'IMPORT_OVER_STORE',
        `${folder} holds a store already: import into a folder that holds nothing but the key`,
      )
    }
    rmSync(side, { recursive: true, force: true })
    mkdirSync(side, { mode: 0o700 })
    const done = await buildStore(side, options, ({ serverId }) => checkKey(folder, serverId))
    renameSync(storePathIn(side), held.storePath)
    syncPath(folder)
    return done
  } finally {
    rmSync(side, { recursive: true, force: true })
    held.release()
  }
}

/** What comes back from an export under a new chain. */
export interface AnewOptions extends NewChainOptions, Pick<ImportOptions, 'chunks'> {}

/**
 * Makes a mirror of the chain in an export, and of its databases the first blocks of a chain of a new
 * key (`underNewChain`). An export is not signed: until a peer has a head that is, the mirror shows none.
 * Errors: as for `importExport`; those of `underNewChain`.
 */
export function importAnew(options: AnewOptions): Promise<NewChain> {
  const { folder, vkey } = options
  const { serverId, key } = nodeOfKey(vkey)
  const publicKey = Buffer.from(key.publicKey).toString('hex')
  return underNewChain(options, async (mirror) => {
    if (isSignedMirror(mirror)) {
      throw new ExportError(
        'IMPORT_OVER_STORE',
        `${mirror} is a mirror that daicho restore has begun`,
      )
    }
    const side = join(folder, SIDE_FOLDER)
    rmSync(side, { recursive: true, force: true })
    mkdirSync(side, { mode: 0o700 })
    try {
      await buildStore(side, options, (header) => {
        const isKey = header.publicKey === null || header.publicKey === publicKey
        if (header.serverId === serverId && isKey) return
        throw new ExportError(
          'IMPORT_WITHOUT_KEY',
          `the export is the chain of server id ${header.serverId}, and not one of the key ${vkey}`,
        )
      })
      // Of the store of an earlier run, which this one replaces: a log without it would be taken for its.
      for (const end of ['-wal', '-shm']) rmSync(`${storePathIn(mirror)}${end}`, { force: true })
      renameSync(storePathIn(side), storePathIn(mirror))
      syncPath(mirror)
    } finally {
      rmSync(side, { recursive: true, force: true })
    }
  })
}

/** Builds the store in the folder `side`; when it resolves, all of it is on the disk. */
async function buildStore(
  side: string,
  { chunks, progress }: Pick<ImportOptions, 'chunks' | 'progress'>,
  check: (header: ExportHeader) => void,
): Promise<ExportHeader & ExportEnd> {
  let store: Store | null = null
  let ofBlocks = 0
  try {
    const done = await readExport(chunks, {
      async header(header) {
        check(header)
        const { serverId, size } = header
        ofBlocks = size
        store = openStore({ folder: side, serverId, durable: false })
      },
      async blocks(blocks, entries) {
        if (store === null) return
        await appendAll(store, blocks)
        const last = blocks.at(-1)?.block.height ?? 0
        progress({ blocks: last + 1, ofBlocks, entries })
      },
    })
    await closed(store)
    store = null
    syncPath(closedStoreIn(side))
    return done
  } finally {
    await closed(store)
  }
}

async function closed(store: Store | null): Promise<void> {
  await store?.close()
}

async function appendAll(store: Store, blocks: readonly ReadBlock[]): Promise<void> {
  await store.transaction(async () => {
    for (const { block, effects, line } of blocks) {
      try {
        await store.append(block, effects)
      } catch (error) {
        if (!(error instanceof EffectError)) throw error
        const index = effects.findIndex(({ position }) => position === error.position)
        throw damagedExport({ line, height: block.height, index, what: error.message }, error)
      }
    }
  })
  await store.maintain()
}

function checkKey(folder: string, serverId: number): void {
  const key = existingNodeKey(folder)
  if (key?.serverId === serverId) return
  const has = key === null ? 'no key' : `the key of server id ${key.serverId}`
  throw new ExportError(
    'IMPORT_WITHOUT_KEY',
    `the export is the chain of server id ${serverId}, and ${folder} holds ${has}: ` +
      'put the node.key of that node there; where that is lost, name its verifier key (--key), and the ' +
      'data come back under a new chain',
  )
}
