import { rmSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Block,
  ChainVerifier,
  entryOf,
  packPosition,
  unpackPosition,
} from '../../chain/index.ts'
import {
  type BlobVerification,
  displayName,
  type Effect,
  effectOf,
  type IdempotencyRecord,
  isDatabaseUrl,
  lockFolder,
  type NewIdempotencyRecord,
  openBlobStore,
  openStore,
  openStoreReader,
  type Store,
  type StoreLocation,
  type StoreReader,
  storedJson,
  storeExists,
  storePathIn,
  type Verification,
  verifyBlobs,
  verifyStore,
} from '../../storage/index.ts'
import { existingNodeKey } from '../log/node-key.ts'
import { expectSignedHead, signedHeadIn } from '../log/signed-head.ts'
import {
  emptySideFolder,
  hasStore,
  moveStore,
  removeFolder,
  withReader,
} from '../peers/side-store.ts'
import { ExportError, type ExportProgress } from './export.ts'

/** Folder in which the copy is built. It is emptied at the start and removed at the end. */
const SIDE_FOLDER = 'copy.partial'
const BLOCKS_PER_PAGE = 256
const BLOBS_PER_PAGE = 500
const CHUNK_BYTES = 1_048_576

export interface CopyOptions {
  readonly from: StoreLocation
  /** A folder or database without a store. */
  readonly to: StoreLocation
  /** Called after each page of blocks. */
  readonly progress: ExportProgress
  /** Number of threads for the verification of the copy. */
  readonly threads: number
}

/** Result of the verification of the copy. */
export type Copied = Verification & BlobVerification

/**
 * Copies a store with its attachments to another folder or database, and verifies the copy. The copy has the same
 * blocks, ids, proofs, idempotency records, erasures and indexes. Blocks that are added during the copy are not copied.
 *
 * After a crash:
 * - A target folder has no store, but may have a side folder and blobs. The next copy replaces the side folder and
 *   keeps the blobs. The store is moved into the folder only after its verification.
 * - A target database has no blocks, but may have blobs, which the next copy keeps. All blocks are written in one
 *   transaction. After this transaction, the store is complete except for its indexes.
 * - If the target has all blocks of the source, the next copy completes and verifies it.
 *
 * Errors: ExportError (COPY_OVER_STORE, COPY_REFUSED, CHAIN_DAMAGED), StoreError; LedgerError STORE_ROLLED_BACK if the
 * signed head in the target folder covers more blocks than the source has.
 */
export async function copyStore(options: CopyOptions): Promise<Copied> {
  const { from, to } = options
  const source = await openStoreReader(from, { frozen: true })
  try {
    return await (isDatabaseUrl(to) ? intoDatabase : intoFolder)(source, options)
  } finally {
    await source.close()
  }
}

/**
 * Moves the store and the attachments of a folder into a database without a store. Copies and verifies them, then
 * removes them from the folder. The other files of the folder stay. After a crash, the folder still has the store, or
 * the database has the complete copy. Does nothing if the folder has no store. Errors: as for `copyStore`.
 */
export async function moveIntoDatabase(options: CopyOptions): Promise<void> {
  const { from: folder } = options
  const held = lockFolder(folder)
  try {
    if (!hasStore(folder)) return
    await copyStore(options)
    const path = storePathIn(folder)
    for (const end of ['', '-wal', '-shm']) rmSync(`${path}${end}`, { force: true })
    rmSync(join(folder, 'attachments'), { recursive: true, force: true })
  } finally {
    held.release()
  }
}

/**
 * Checks that the database at `url` has no blocks, or the chain of the key in `folder`, which an interrupted move can
 * have left there. Errors: COPY_OVER_STORE, StoreError.
 */
export async function expectOwnDatabase(url: string, folder: string): Promise<void> {
  if (!(await storeExists(url))) return
  await withReader(url, async (store) => {
    if ((await store.head(store.serverId)) === null) return
    if (existingNodeKey(folder)?.serverId !== store.serverId) throw overStore(url)
  })
}

async function intoDatabase(source: StoreReader, options: CopyOptions): Promise<Copied> {
  const { to } = options
  const isCopied = (await storeExists(to)) && (await hasBlocksOf(source, to))
  const store = await openStore({ location: to, serverId: source.serverId, durable: true })
  try {
    await copyBlobs(source, options)
    if (!isCopied) await store.transaction(() => copyBlocks(source, store, options.progress))
    await finish(source, store)
  } finally {
    await store.close()
  }
  return verifiedCopy(to, to, source, options)
}

async function intoFolder(source: StoreReader, options: CopyOptions): Promise<Copied> {
  const { to } = options
  const { serverId } = source
  const held = lockFolder(to)
  const side = join(to, SIDE_FOLDER)
  try {
    const key = existingNodeKey(to)
    if (key !== null && key.serverId !== serverId) {
      const message = `${to} has the key of server id ${key.serverId}, not of ${serverId}`
      throw new ExportError('COPY_OVER_STORE', message)
    }
    if (hasStore(to)) {
      if (!(await storeExists(to)) || !(await hasBlocksOf(source, to))) throw overStore(to)
      return await verifiedCopy(to, to, source, options)
    }
    emptySideFolder(side)
    const store = await openStore({ location: side, serverId, durable: false })
    try {
      await copyBlocks(source, store, options.progress)
      await finish(source, store)
      await expectSignedHead(store, signedHeadIn(to))
    } finally {
      await store.close()
    }
    await copyBlobs(source, options)
    const copied = await verifiedCopy(side, to, source, options)
    moveStore(side, to)
    return copied
  } finally {
    removeFolder(side)
    held.release()
  }
}

/**
 * Returns whether the store at `to` has the last block of `source`; false if it has no block, because an interrupted copy
 * can leave such a database. Errors: COPY_OVER_STORE for any other store.
 */
async function hasBlocksOf(source: StoreReader, to: StoreLocation): Promise<boolean> {
  const reader = await openStoreReader(to, { frozen: false })
  try {
    const { serverId } = source
    const head = await reader.head(reader.serverId)
    if (reader.serverId === serverId && head?.id === (await source.head(serverId))?.id) return true
    if (head !== null) throw overStore(to)
    return false
  } finally {
    await reader.close()
  }
}

function overStore(to: StoreLocation): ExportError {
  const message = `${displayName(to)} already contains a store: copy to an empty folder or database`
  return new ExportError('COPY_OVER_STORE', message)
}

/** Appends all blocks of `source` to the empty `store`, with their idempotency records. */
async function copyBlocks(
  source: StoreReader,
  store: Store,
  progress: ExportProgress,
): Promise<void> {
  const { serverId } = source
  const last = await source.head(serverId)
  const size = last === null ? 0 : last.height + 1
  const records = new RecordPages(source)
  const chain = new ChainVerifier()
  let entries = 0
  for (let height = 0; height < size; ) {
    const page = await source.blocks(serverId, height, BLOCKS_PER_PAGE)
    if (page.length === 0) throw damaged(height, 'the block is missing')
    for (const block of page) {
      const fault = chain.push(block)
      if (fault !== null) throw damaged(fault.height, fault.what)
      await store.append(block, effectsOfBlock(block), await records.of(block.height))
      entries += block.entries.length
    }
    height += page.length
    progress({ blocks: height, ofBlocks: size, entries })
  }
}

function effectsOfBlock({ height, entries }: Block): Effect[] {
  return entries.map((text, index) => {
    const entry = entryOf(storedJson(text))
    if (entry === null) throw damaged(height, 'the block contains something that is not an entry')
    return effectOf(entry, packPosition(height, index))
  })
}

function damaged(height: number, what: string): ExportError {
  return new ExportError('CHAIN_DAMAGED', `the chain does not verify at height ${height}: ${what}`)
}

/** Reads the idempotency records of a store in the order of its blocks. */
class RecordPages {
  readonly #store: StoreReader
  #page: IdempotencyRecord[] = []
  #after = -1
  #isAtEnd = false

  constructor(store: StoreReader) {
    this.#store = store
  }

  /** Returns the records of the block at `height`, which must be greater than in the previous call. */
  async of(height: number): Promise<NewIdempotencyRecord[]> {
    const end = packPosition(height + 1, 0)
    const found: NewIdempotencyRecord[] = []
    for (;;) {
      await this.#fill()
      const [first] = this.#page
      if (first === undefined || first.position >= end) return found
      this.#page.shift()
      const { key, fingerprint, entries, position } = first
      found.push({ key, fingerprint, entries, index: unpackPosition(position).index })
    }
  }

  async #fill(): Promise<void> {
    if (this.#page.length > 0 || this.#isAtEnd) return
    this.#page = await this.#store.idempotencyRecords(this.#after, BLOCKS_PER_PAGE)
    this.#after = this.#page.at(-1)?.position ?? this.#after
    this.#isAtEnd = this.#page.length === 0
  }
}

/** Declares and builds the indexes, and removes erased content and deleted databases. */
async function finish(source: StoreReader, store: Store): Promise<void> {
  for (const { db, path } of await source.indexes()) await store.addIndex(db, path)
  while (await store.maintain());
}

async function copyBlobs(source: StoreReader, { from, to }: CopyOptions): Promise<void> {
  // Opens both blob stores with the rows of the source, which refer to the same blobs as the rows of the copy.
  const target = await openBlobStore(to, source, true)
  const files = await openBlobStore(from, source, false)
  try {
    await target.recoverWithoutRows()
    for (let after = ''; ; ) {
      const page = await source.attachments.blobs(after, BLOBS_PER_PAGE)
      const last = page.at(-1)
      if (last === undefined) return
      for (const blob of page) {
        if ((await target.progress(blob)).isComplete) continue
        const file = await files.read(blob)
        if (file === null) throw await missingBlob(blob.sha256, from)
        try {
          await target.add(chunksOf(file), async ({ sha256 }) => sha256 === blob.sha256, {
            isRecorded: (isSame) => isSame,
            mayBeRecorded: () => false,
          })
        } finally {
          await file.close()
        }
      }
      after = last.sha256
    }
  } finally {
    await files.close()
    await target.close()
  }
}

async function missingBlob(sha256: string, from: StoreLocation): Promise<ExportError> {
  const current = await openStoreReader(from, { frozen: false })
  try {
    const isErased = (await current.attachments.namedAt(sha256)) === null
    const what = isErased ? 'was erased during the copy; copy again' : 'is missing'
    return new ExportError('CHAIN_DAMAGED', `blob ${sha256} ${what}`)
  } finally {
    await current.close()
  }
}

async function* chunksOf(file: {
  read(target: Uint8Array, at: number): Promise<number>
}): AsyncGenerator<Uint8Array> {
  const chunk = Buffer.alloc(CHUNK_BYTES)
  for (let at = 0; ; ) {
    const length = await file.read(chunk, at)
    if (length === 0) return
    yield chunk.subarray(0, length)
    at += length
  }
}

/** Verifies the store at `location` whose blobs are at `blobs`. Errors: COPY_REFUSED. */
async function verifiedCopy(
  location: StoreLocation,
  blobs: StoreLocation,
  source: StoreReader,
  { threads: count }: CopyOptions,
): Promise<Copied> {
  const store = await openStoreReader(location, { frozen: true })
  try {
    const verification = await verifyStore(store, { threads: { location, count } })
    const head = await source.head(source.serverId)
    const isSame = verification.headId === (head?.id ?? null)
    const copied = { ...verification, ...(await verifyBlobs(store, blobs)) }
    const finding = verification.finding ?? copied.finding
    if (finding === null && isSame) return copied
    const what = finding?.what ?? 'its head differs from the head of the source'
    throw new ExportError('COPY_REFUSED', `the copy does not verify: ${what}`)
  } finally {
    await store.close()
  }
}
