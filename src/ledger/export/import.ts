import { join } from 'node:path'
import { fileExists } from '../../base/files/durable-files.ts'
import { lockFolder, openStore, type Store, toStorePath, verifyStore } from '../../storage/index.ts'
import { findNodeKey } from '../log/node-key.ts'
import { requireSignedHead, signedHeadFile, storeEmptyHead } from '../log/signed-head.ts'
import { appendBlocks, isSignedMirror } from '../peers/mirror.ts'
import { type NewChain, type NewChainOptions, restoreAsNewChain } from '../peers/new-chain.ts'
import { parseNodeKey } from '../peers/peer-list.ts'
import {
  buildStore,
  hasStore,
  removeFolder,
  requireValid,
  withReader,
} from '../peers/side-store.ts'
import {
  damagedExport,
  type ExportEnd,
  ExportError,
  type ExportHeader,
  type ExportProgress,
} from './export.ts'
import { readExport } from './read-export.ts'

/** Folder in which the store is built. It is emptied at the start of an import and removed at the end. */
const SIDE_FOLDER = 'import.partial'

export interface ImportOptions {
  /** A data folder with the key of the chain's node and without a store. */
  readonly folder: string
  /** The bytes of an export. */
  readonly chunks: AsyncIterable<Uint8Array>
  readonly progress: ExportProgress
}

export interface Imported extends ExportHeader, ExportEnd {
  /** Number of blobs of the chain's attachments, which an export does not contain. */
  readonly blobs: number
}

/**
 * Creates the store of a node from its export: the chain and the resulting databases. The node then continues the
 * chain.
 *
 * A crash before the store is moved leaves the folder unchanged, except for a side folder that the next import removes.
 * A later crash leaves the complete store, because the store is durable before it is moved. The next import of the same
 * export verifies that store. If the signed head is missing, the next import or the first start writes it.
 *
 * Errors: ExportError, StoreError (FOLDER_IN_USE, STORE_FULL …), LedgerError (an invalid key or signed head;
 * STORE_ROLLED_BACK, LOG_CONTRADICTED unless the export has the blocks that the node has signed).
 */
export async function importExport(options: ImportOptions): Promise<Imported> {
  const { folder } = options
  const lock = lockFolder(folder)
  try {
    const kept = signedHeadFile(folder)
    // Rejects a damaged signed head before the store is built.
    kept.read()
    const done = hasStore(folder)
      ? await importedBefore(options)
      : await buildStore(folder, SIDE_FOLDER, async (side) => {
          const check = ({ serverId }: ExportHeader) => requireKey(folder, serverId)
          const imported = await storeExport(side, options, check)
          await withReader(side, (store) => requireSignedHead(store, kept))
          return imported
        })
    const key = findNodeKey(folder)
    if (key !== null) storeEmptyHead(kept, key)
    return done
  } finally {
    lock.release()
  }
}

/** Returns the result of an earlier import of the same export. Errors: IMPORT_OVER_STORE; RESTORE_REFUSED. */
async function importedBefore({ folder, chunks, progress }: ImportOptions): Promise<Imported> {
  const overStore = () =>
    new ExportError(
      'IMPORT_OVER_STORE',
      `${folder} already contains a store: import into a folder that contains only the key`,
    )
  if (!fileExists(toStorePath(folder))) throw overStore()
  removeFolder(join(folder, SIDE_FOLDER))
  return withReader(folder, async (store) => {
    const head = await store.head(store.serverId)
    const read = await readExport(chunks, {
      async header({ serverId, headId }) {
        if (serverId !== store.serverId || headId !== (head?.id ?? null)) throw overStore()
        requireKey(folder, serverId)
      },
      async blocks(blocks, entries) {
        const height = blocks.at(-1)?.block.height ?? 0
        progress({ blocks: height + 1, ofBlocks: (head?.height ?? 0) + 1, entries })
      },
    })
    requireValid(await verifyStore(store), `the store in ${folder}`)
    return { ...read, blobs: (await store.attachments.countBlobs()).blobs }
  })
}

export interface NewChainImportOptions extends NewChainOptions, Pick<ImportOptions, 'chunks'> {}

/**
 * Creates a mirror of the exported chain, and a new chain with a new key that begins with the exported databases
 * (`restoreAsNewChain`). An export is not signed, so the mirror has no signed head until a peer provides one. Errors:
 * as for `importExport` and `restoreAsNewChain`.
 */
export function importAsNewChain(options: NewChainImportOptions): Promise<NewChain> {
  const { vkey } = options
  const { serverId } = parseNodeKey(vkey)
  return restoreAsNewChain(options, async (mirror) => {
    if (isSignedMirror(mirror)) {
      throw new ExportError(
        'IMPORT_OVER_STORE',
        `${mirror} contains an incomplete mirror of an interrupted daicho restore`,
      )
    }
    await buildStore(mirror, SIDE_FOLDER, (side) =>
      storeExport(side, options, (header) => {
        if (header.serverId === serverId) return
        throw new ExportError(
          'IMPORT_WITHOUT_KEY',
          `the export is the chain of server id ${header.serverId}, but the key ${vkey} belongs to another node`,
        )
      }),
    )
  })
}

/** Stores an export in `side`. The store is durable when the promise resolves. */
async function storeExport(
  side: string,
  { chunks, progress }: Pick<ImportOptions, 'chunks' | 'progress'>,
  check: (header: ExportHeader) => void,
): Promise<Imported> {
  let store: Store | null = null
  let ofBlocks = 0
  try {
    const read = await readExport(chunks, {
      async header(header) {
        check(header)
        const { serverId, size } = header
        ofBlocks = size
        store = await openStore({ location: side, serverId, durable: false })
      },
      async blocks(blocks, entries) {
        if (store === null) return
        await appendBlocks(store, blocks, ({ line, block: { height } }, index, what) =>
          damagedExport({ line, height, index, what }),
        )
        await store.maintain()
        const last = blocks.at(-1)?.block.height ?? 0
        progress({ blocks: last + 1, ofBlocks, entries })
      },
    })
    const { blobs = 0 } = (await (store as Store | null)?.attachments.countBlobs()) ?? {}
    return { ...read, blobs }
  } finally {
    await (store as Store | null)?.close()
  }
}

function requireKey(folder: string, serverId: number): void {
  const key = findNodeKey(folder)
  if (key?.serverId === serverId) return
  const found = key === null ? 'no key' : `the key of server id ${key.serverId}`
  throw new ExportError(
    'IMPORT_WITHOUT_KEY',
    `the export is the chain of server id ${serverId}, but ${folder} contains ${found}: ` +
      'copy the node.key of that node into the folder; if the key is lost, restore the data under a ' +
      'new chain with --key and the verifier key of that node',
  )
}
