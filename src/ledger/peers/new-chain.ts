import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Static } from 'typebox'
import type { Author } from '../../base/author.ts'
import type { Clock } from '../../base/clock.ts'
import { fileExists } from '../../base/files/durable-files.ts'
import { Type } from '../../base/shape.ts'
import { parseShape } from '../../base/shaped-json.ts'
import { attachmentText, pickAuthorship } from '../../chain/index.ts'
import {
  type BlobStore,
  lockFolder,
  openBlobStore,
  openStoreReader,
  removeWrongBlobs,
  requireFolder,
  type StoreLocation,
  type StoreReader,
  storeExists,
  type Verification,
  writeDurably,
} from '../../storage/index.ts'
import { findNodeKey, type NodeKey, openNodeKey } from '../log/node-key.ts'
import { signedHeadFile, storeEmptyHead } from '../log/signed-head.ts'
import { systemPlatform } from '../platform.ts'
import { ALL, itemPages } from '../read/pages.ts'
import type { Operation, UnitOfWork } from '../write/unit-of-work.ts'
import { LedgerWriter } from '../write/writer.ts'
import { type BlobTransfer, ChainBlobs, fetchingBlobs, localBlobs, WHOLE_RUN } from './blobs.ts'
import { PeerError } from './errors.ts'
import { mirrorFolder, type PullProgress, VKEY_FILE } from './mirror.ts'
import { parseNodeKey } from './peer-list.ts'
import {
  buildStore,
  hasStore,
  removeFolder,
  requireValid,
  verifyStoreAt,
  withReader,
} from './side-store.ts'

/** File in a data folder that identifies the old chain from which the databases were restored. */
const NOTE_FILE = 'restored.json'
/** Folder in which the new chain is built. It is emptied before the build, and removed after it. */
const SIDE_FOLDER = 'rebuild.partial'
/** A unit of work, and so its block, is complete when it has this number of operations or characters. */
const OPERATIONS_MAX = 1_024
const UNIT_CHARACTERS = 4 * 1024 * 1024
const ITEMS_PER_PAGE = 256
const ATTACHMENTS_PER_PAGE = 500

export interface NewChainOptions {
  /** A data folder without key and store, or a folder in which an earlier run was interrupted. */
  readonly folder: string
  /** URL of the database into which the store is moved later, or null. */
  readonly database?: string | null
  /** The verifier key of the old chain. */
  readonly vkey: string
  readonly clock: Clock
  /** The author of the entries of the new chain; null or absent for none. */
  readonly by?: Author | null
  /** Number of threads for verification. */
  readonly threads: number
  readonly progress: PullProgress
}

export interface NewChain {
  /** Verification of the old chain, which is now a mirror. */
  readonly mirrored: Verification
  /** Verification of the new chain. */
  readonly own: Verification
  /** Number of current attachments that were left out because their bytes are not available. */
  readonly absent: number
}

/**
 * Content of NOTE_FILE. `mirrored` is the server id of the old chain. `height` and `id` are those of the last block of
 * the new chain; null until the chain is built, and if it is empty.
 */
const Note = Type.Object({
  mirrored: Type.Integer(),
  height: Type.Union([Type.Integer(), Type.Null()]),
  id: Type.Union([Type.String(), Type.Null()]),
  absent: Type.Integer(),
})
type Note = Static<typeof Note>

/**
 * Restores the data of a node whose key is lost. `fill` creates or completes a mirror of the old chain in the given
 * folder. If the mirror verifies, its databases become the first blocks of a chain with a new key.
 *
 * A crash before NOTE_FILE is written changes nothing. A crash before the store is moved leaves NOTE_FILE, a key that
 * has signed nothing, a mirror with complete pages of verified blocks, and blobs to which no entry refers yet. The next
 * run continues with them. A later crash leaves the complete store and NOTE_FILE, which identifies the last block. If
 * the signed head is missing, the first start writes it.
 *
 * Errors: as for `fill`; PeerError RESTORE_OVER_STORE, RESTORE_REFUSED; StoreError.
 */
export async function restoreAsNewChain(
  options: NewChainOptions,
  fill: (mirror: string, key: NodeKey) => Promise<void>,
): Promise<NewChain> {
  const { folder, database = null, vkey, threads } = options
  const { serverId } = parseNodeKey(vkey)
  const lock = lockFolder(folder)
  try {
    const location = await builtAt(folder, database)
    const note = readNote(folder)
    const isContinued = note !== null && note.mirrored === serverId
    if (!isContinued && (note !== null || location !== null || findNodeKey(folder) !== null)) {
      throw overStore(folder)
    }
    const mirror = mirrorFolder(folder, serverId)
    if (location !== null) return await builtBefore(options, location, note)
    const kept = signedHeadFile(folder)
    // The node of this folder has signed blocks, so a new store would be a second history under the same key.
    if ((kept.read()?.size ?? 0) > 0) throw overStore(folder)
    if (note === null) writeNote(folder, { mirrored: serverId, height: null, id: null, absent: 0 })
    const key = openNodeKey(folder, true)
    requireFolder(mirror)
    await fill(mirror, key)
    writeDurably(join(mirror, VKEY_FILE), `${vkey}\n`)
    const mirrored = await verifyStoreAt(mirror, threads)
    if (mirrored.finding !== null) removeFolder(mirror)
    requireValid(mirrored, 'the received chain')
    const built = await buildStore(folder, SIDE_FOLDER, async (side) => {
      const { own, absent } = await buildChain(options, key, { mirror, side })
      const height = own.blocks === 0 ? null : own.blocks - 1
      writeNote(folder, { mirrored: serverId, height, id: own.headId, absent })
      return { mirrored, own, absent }
    })
    storeEmptyHead(kept, key)
    return built
  } finally {
    lock.release()
  }
}

/** Returns where an earlier run has put the store, or null. */
async function builtAt(folder: string, database: string | null): Promise<StoreLocation | null> {
  if (hasStore(folder)) return folder
  if (database === null || !(await storeExists(database))) return null
  const head = await withReader(database, (store) => store.head(store.serverId))
  return head === null ? null : database
}

/** Returns the result of an earlier run that has already moved the store. Errors: RESTORE_OVER_STORE. */
async function builtBefore(
  { folder, vkey, threads }: NewChainOptions,
  location: StoreLocation,
  note: Note | null,
): Promise<NewChain> {
  await withReader(location, async (store) => {
    // The new chain of an empty chain is empty, too.
    const [block] = await store.blocks(store.serverId, note?.height ?? 0, 1)
    if ((block?.id ?? null) !== (note?.id ?? null)) throw overStore(folder)
  })
  removeFolder(join(folder, SIDE_FOLDER))
  const mirror = mirrorFolder(folder, parseNodeKey(vkey).serverId)
  const mirrored = requireValid(await verifyStoreAt(mirror, threads), `the mirror in ${mirror}`)
  const own = requireValid(await verifyStoreAt(location, threads), 'the restored store')
  return { mirrored, own, absent: note?.absent ?? 0 }
}

function overStore(folder: string): PeerError {
  return new PeerError(
    'RESTORE_OVER_STORE',
    `${folder} already contains a store or a key: to restore without the key of the chain, ` +
      'choose an empty folder',
  )
}

function writeNote(folder: string, note: Note): void {
  writeDurably(join(folder, NOTE_FILE), `${JSON.stringify(note)}\n`)
}

/**
 * Returns the height of the last block of a node's chain that was restored from another chain; null if there is none.
 * Errors: RESTORE_OVER_STORE for a malformed NOTE_FILE.
 */
export function readRestoredHeight(folder: string): number | null {
  return readNote(folder)?.height ?? null
}

/** Returns the path, relative to `folder`, of the mirror from which its databases were restored; null if there is none. */
export function findRestoredMirror(folder: string): string | null {
  const note = readNote(folder)
  const mirror = note === null ? null : mirrorFolder('', note.mirrored)
  return mirror !== null && hasStore(join(folder, mirror)) ? mirror : null
}

/** Returns the content of NOTE_FILE, or null if there is no file. Errors: RESTORE_OVER_STORE for a malformed file. */
function readNote(folder: string): Note | null {
  const path = join(folder, NOTE_FILE)
  if (!fileExists(path)) return null
  const note = parseShape(Note, readFileSync(path, 'utf8'))
  if (note !== null) return note
  const message = `${path} does not describe a restore: put it back from a backup`
  throw new PeerError('RESTORE_OVER_STORE', message)
}

/**
 * Builds the new chain in `side` from the current databases of the mirror: each database with its items in creation
 * order, and their attachments. Histories stay in the mirror. Blobs are copied to the data folder unless they exist
 * there.
 */
async function buildChain(
  { folder, clock, by, threads, progress }: NewChainOptions,
  { serverId }: NodeKey,
  { mirror, side }: { mirror: string; side: string },
): Promise<Pick<NewChain, 'own' | 'absent'>> {
  const source = await openStoreReader(mirror, { frozen: true })
  const { attachments } = source
  const writer = await LedgerWriter.start(
    { location: side, serverId, durable: false },
    clock,
    systemPlatform,
  )
  const sourceFiles = await openBlobStore(mirror, source, true)
  // Opened with the rows of the mirror, which refer to the same blobs as the rows of the new chain.
  const files = await openBlobStore(folder, source, true)
  const transfer = fetchingBlobs(
    localBlobs(attachments, sourceFiles),
    new ChainBlobs(attachments, files),
  )
  const copier = new DatabaseCopier(source, transfer, files)
  let blocks = 0
  let entries = 0
  try {
    await files.recoverWithoutRows()
    await removeWrongBlobs(source, folder)
    for await (const unit of copier.units()) {
      const made = pickAuthorship({ by: by ?? undefined, reason: undefined })
      const conditions = { ...made, precondition: null, idempotency: null, network: 'all' } as const
      await writer.record(unit, conditions)
      blocks += 1
      entries += unit.length
      progress({ blocks, ofBlocks: blocks, entries })
    }
  } finally {
    await files.close()
    await sourceFiles.close()
    await source.close()
    await writer.close()
  }
  const own = requireValid(await verifyStoreAt(side, threads), 'the new chain')
  return { own, absent: copier.absent }
}

/** Converts the databases of a store to operations that create the same databases. */
class DatabaseCopier {
  /** Number of attachments that were left out because their bytes are not available. */
  absent = 0
  readonly #store: StoreReader
  readonly #transfer: BlobTransfer
  readonly #target: BlobStore

  constructor(store: StoreReader, transfer: BlobTransfer, target: BlobStore) {
    this.#store = store
    this.#transfer = transfer
    this.#target = target
  }

  async *units(): AsyncGenerator<UnitOfWork> {
    let unit: Operation[] = []
    let characters = 0
    for await (const operation of this.#operations()) {
      unit.push(operation)
      characters += 'text' in operation ? operation.text.length : 0
      if (unit.length < OPERATIONS_MAX && characters < UNIT_CHARACTERS) continue
      yield unit
      unit = []
      characters = 0
    }
    if (unit.length > 0) yield unit
  }

  async *#operations(): AsyncGenerator<Operation> {
    // If the chain has no attachments, like most chains, does not search for the attachments of each item.
    const hasBlobs = (await this.#store.attachments.countBlobs()).blobs > 0
    for (const { name: db, created } of await this.#store.databases()) {
      yield { kind: 'create_db', db }
      const pages = itemPages(ALL, ITEMS_PER_PAGE, -1, (from) =>
        this.#store.listItems(created, from),
      )
      for await (const page of pages) {
        for (const { id, text } of page) {
          yield { kind: 'create_item', db, id, text, assigned: false }
          if (hasBlobs) yield* this.#attachments(db, id)
        }
      }
    }
  }

  async *#attachments(db: string, id: string): AsyncGenerator<Operation> {
    for (let after = ''; ; ) {
      const range = { after, limit: ATTACHMENTS_PER_PAGE }
      const page = await this.#store.attachments.list(db, id, range)
      const last = page.at(-1)
      if (last === undefined) return
      for (const { content_type, length, name, sha256 } of page) {
        if (await this.#copyBlob(sha256, length)) {
          const text = attachmentText({ content_type, length, name, sha256 })
          yield { kind: 'create_attachment', db, id, text }
        } else this.absent += 1
      }
      after = last.name
    }
  }

  /** Copies a blob to the data folder. Returns whether the complete blob is durable there. */
  async #copyBlob(sha256: string, length: number): Promise<boolean> {
    const { isComplete, bytes } = await this.#target.progress({ sha256, length })
    return isComplete || this.#transfer.move({ sha256, length, bytes }, WHOLE_RUN)
  }
}
