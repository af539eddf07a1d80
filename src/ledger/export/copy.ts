import { readdirSync, readFileSync, realpathSync, rmdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { systemSchedule } from '../../base/clock.ts'
import { errorCode } from '../../base/errors.ts'
import { fileExists } from '../../base/files/durable-files.ts'
import { packPosition, unpackPosition } from '../../chain/index.ts'
import {
  type BlobVerification,
  displayName,
  type IdempotencyRecord,
  isDatabaseUrl,
  lockFolder,
  type NewIdempotencyRecord,
  openBlobStore,
  openSharedText,
  openStore,
  type Store,
  type StoreLocation,
  type StoreReader,
  sharedTextChanges,
  storeExists,
  toStorePath,
  type Verification,
  verifyBlobs,
  verifyStore,
  writeDurably,
} from '../../storage/index.ts'
import { findNodeKey } from '../log/node-key.ts'
import { requireSignedHead, signedHeadFile } from '../log/signed-head.ts'
import { ChainBlobs, fetchingBlobs, localBlobs, WHOLE_RUN } from '../peers/blobs.ts'
import { OWN_EVIDENCE } from '../peers/evidence.ts'
import { buildStore, hasStore, withReader } from '../peers/side-store.ts'
import { ExportError, type ExportProgress, exportLines } from './export.ts'
import { readExport } from './read-export.ts'

/** Folder in which the copy is built. It is emptied at the start and removed at the end. */
const SIDE_FOLDER = 'copy.partial'
/** The names of files in a folder, and of texts in a database, which the processes of a node share. */
const SHARED_TEXTS = [
  ['token-revocations.json', 'token-revocations'],
  ['evidence.json', OWN_EVIDENCE],
  ['witness.json', 'witness'],
] as const
const RECORDS_PER_PAGE = 256
const BLOBS_PER_PAGE = 500

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
 * blocks, ids, proofs, idempotency records, erasures, indexes and shared texts. Blocks that are added during the copy
 * are not copied.
 *
 * After a crash:
 * - A target folder has no store, but may have a side folder and blobs. The next copy replaces the side folder and
 *   keeps the blobs. The store is moved into the folder only after its verification.
 * - A target database has no blocks, but may have blobs, which the next copy keeps. All blocks are written in one
 *   transaction. After this transaction, the store is complete except for its indexes.
 * - If the target has all blocks of the source, the next copy completes and verifies it.
 *
 * Errors: ExportError (COPY_OVER_STORE, COPY_REFUSED, CHAIN_DAMAGED), StoreError; LedgerError STORE_ROLLED_BACK,
 * LOG_CONTRADICTED if the source lacks blocks of the signed head in its folder or in the target folder.
 */
export async function copyStore(options: CopyOptions): Promise<Copied> {
  const { from, to } = options
  if (toPlace(from) === toPlace(to)) throw overStore(to)
  // Read before the store, because a running node signs further blocks.
  const signed = isDatabaseUrl(from) ? null : signedHeadFile(from).read()
  const copy = isDatabaseUrl(to) ? intoDatabase : intoFolder
  return withReader(from, async (source) => {
    await requireSignedHead(source, { read: () => signed, write() {} })
    return copy(source, options)
  })
}

/**
 * Copies the texts of SHARED_TEXTS to or from a database. Otherwise, revoked tokens would be valid again, and a key that
 * has signed two histories could sign further blocks. If the store is already copied, only compares the texts, because
 * either node may have changed them. Errors: COPY_OVER_STORE, StoreError.
 */
async function copySharedTexts({ from, to }: CopyOptions, isCopied: boolean): Promise<void> {
  if (!isDatabaseUrl(from) && !isDatabaseUrl(to)) return
  for (const names of SHARED_TEXTS) {
    const text = await readShared(from, names)
    if (text === null) continue
    const [file, name] = names
    if (isCopied) {
      if ((await readShared(to, names)) !== text) throw overStore(to)
    } else if (isDatabaseUrl(to)) await (await sharedTextChanges(to, name))(() => text)
    else writeDurably(join(to, file), text)
  }
}

async function readShared(
  location: StoreLocation,
  [file, name]: readonly [string, string],
): Promise<string | null> {
  if (!isDatabaseUrl(location)) {
    const path = join(location, file)
    return fileExists(path) ? readFileSync(path, 'utf8') : null
  }
  const shared = await openSharedText(location, name, systemSchedule, false)
  await shared.close()
  return shared.current()
}

/** Returns the same text for all names of one folder. */
function toPlace(location: StoreLocation): string {
  return isDatabaseUrl(location) || !fileExists(location) ? location : realpathSync(location)
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
    // First, because without the store, the next run would leave them.
    removeBlobs(join(folder, 'attachments'))
    const path = toStorePath(folder)
    for (const end of ['', '-wal', '-shm']) rmSync(`${path}${end}`, { force: true })
    // The link to the store, if it was one.
    rmSync(toStorePath(folder), { force: true })
  } finally {
    held.release()
  }
}

/** Removes the blobs in `folder`, and the folder, which may be a link to another disk, unless it is a mount point. */
function removeBlobs(folder: string): void {
  const path = fileExists(folder) ? realpathSync(folder) : null
  for (const name of path === null ? [] : readdirSync(path)) {
    if (/^(?:[0-9a-f]{2}|incoming)$/.test(name)) rmSync(join(folder, name), { recursive: true })
  }
  try {
    if (path !== null) rmdirSync(path)
    rmSync(folder, { force: true })
  } catch (error) {
    if (!['EBUSY', 'ENOTEMPTY'].includes(errorCode(error))) throw error
  }
}

/**
 * Checks that the database at `url` has no blocks, or the chain of the key in `folder`, which an interrupted move can
 * have left there. Errors: COPY_OVER_STORE, StoreError.
 */
export async function requireOwnDatabase(url: string, folder: string): Promise<void> {
  if (!(await storeExists(url))) return
  await withReader(url, async (store) => {
    if ((await store.head(store.serverId)) === null) return
    if (findNodeKey(folder)?.serverId !== store.serverId) throw overStore(url)
  })
}

async function intoDatabase(source: StoreReader, options: CopyOptions): Promise<Copied> {
  const { to } = options
  const isCopied = (await storeExists(to)) && (await hasSameBlocks(source, to))
  const store = await openStore({ location: to, serverId: source.serverId, durable: true })
  try {
    await copySharedTexts(options, isCopied)
    await copyBlobs(source, options)
    if (!isCopied) await store.transaction(() => copyBlocks(source, store, options.progress))
    await finishCopy(source, store)
  } finally {
    await store.close()
  }
  return verifiedCopy(to, to, source, options)
}

async function intoFolder(source: StoreReader, options: CopyOptions): Promise<Copied> {
  const { to } = options
  const { serverId } = source
  const held = lockFolder(to)
  try {
    const key = findNodeKey(to)
    if (key !== null && key.serverId !== serverId) {
      const message = `${to} has the key of server id ${key.serverId}, not of ${serverId}`
      throw new ExportError('COPY_OVER_STORE', message)
    }
    if (hasStore(to)) {
      if (!(await storeExists(to)) || !(await hasSameBlocks(source, to))) throw overStore(to)
      await copySharedTexts(options, true)
      return await verifiedCopy(to, to, source, options)
    }
    return await buildStore(to, SIDE_FOLDER, async (side) => {
      const store = await openStore({ location: side, serverId, durable: false })
      try {
        await copyBlocks(source, store, options.progress)
        await finishCopy(source, store)
        await requireSignedHead(store, signedHeadFile(to))
      } finally {
        await store.close()
      }
      await copyBlobs(source, options)
      await copySharedTexts(options, false)
      return verifiedCopy(side, to, source, options)
    })
  } finally {
    held.release()
  }
}

/**
 * Returns whether the store at `to` has the last block of `source`; false if it has no block, because an interrupted copy
 * can leave such a database. Errors: COPY_OVER_STORE for any other store.
 */
async function hasSameBlocks(source: StoreReader, to: StoreLocation): Promise<boolean> {
  return withReader(to, async (reader) => {
    const { serverId } = source
    const head = await reader.head(reader.serverId)
    if (reader.serverId === serverId && head?.id === (await source.head(serverId))?.id) return true
    if (head !== null) throw overStore(to)
    return false
  })
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
  const records = readRecords(source)
  let next = await records.next()
  const lines = exportLines(source, null, progress)
  await readExport(Readable.from(lines, { objectMode: false }), {
    async header() {},
    async blocks(blocks) {
      for (const { block, effects } of blocks) {
        const added: NewIdempotencyRecord[] = []
        const end = packPosition(block.height + 1, 0)
        for (; next.done !== true && next.value.position < end; next = await records.next()) {
          const { key, fingerprint, entries, position } = next.value
          added.push({ key, fingerprint, entries, index: unpackPosition(position).index })
        }
        await store.append(block, effects, added)
      }
    },
  })
}

/** Yields the idempotency records of a store in the order of its blocks. */
async function* readRecords(store: StoreReader): AsyncGenerator<IdempotencyRecord> {
  for (let after = -1; ; ) {
    const page = await store.idempotencyRecords(after, RECORDS_PER_PAGE)
    yield* page
    const last = page.at(-1)
    if (last === undefined) return
    after = last.position
  }
}

/** Declares and builds the indexes, and removes erased content and deleted databases. */
async function finishCopy(source: StoreReader, store: Store): Promise<void> {
  for (const { db, path } of await source.indexes()) await store.addIndex(db, path)
  while (await store.maintain());
}

async function copyBlobs(source: StoreReader, { from, to }: CopyOptions): Promise<void> {
  // Both blob stores use the rows of the source. The rows of the copy refer to the same blobs.
  const files = await openBlobStore(to, source, true)
  const sourceFiles = await openBlobStore(from, source, false)
  try {
    await files.recoverWithoutRows()
    const blobs = new ChainBlobs(source.attachments, files)
    const transfer = fetchingBlobs(localBlobs(source.attachments, sourceFiles), blobs)
    for (let after = -1, more = true; more; ) {
      const page = await blobs.absent(after, BLOBS_PER_PAGE)
      for (const blob of page.blobs) {
        if (!(await transfer.move(blob, WHOLE_RUN))) throw await missingBlob(blob.sha256, from)
      }
      ;({ upTo: after, more } = page)
    }
  } finally {
    await sourceFiles.close()
    await files.close()
  }
}

async function missingBlob(sha256: string, from: StoreLocation): Promise<ExportError> {
  return withReader(from, async ({ attachments }) => {
    const isErased = (await attachments.namedAt(sha256)) === null
    const what = isErased ? 'was erased during the copy; copy again' : 'is missing or unreadable'
    return new ExportError('CHAIN_DAMAGED', `blob ${sha256} ${what}`)
  })
}

/** Verifies the store at `location` whose blobs are at `blobs`. Errors: COPY_REFUSED. */
async function verifiedCopy(
  location: StoreLocation,
  blobs: StoreLocation,
  source: StoreReader,
  { threads: count }: CopyOptions,
): Promise<Copied> {
  return withReader(location, async (store) => {
    const verification = await verifyStore(store, { threads: { location, count } })
    const head = await source.head(source.serverId)
    const isSame = verification.headId === (head?.id ?? null)
    const copied = { ...verification, ...(await verifyBlobs(store, blobs)) }
    const finding = verification.finding ?? copied.finding
    if (finding === null && isSame) return copied
    const what = finding?.what ?? 'its head differs from the head of the source'
    throw new ExportError('COPY_REFUSED', `the copy does not verify: ${what}`)
  })
}
