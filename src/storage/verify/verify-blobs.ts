import { unpackPosition } from '../../chain/index.ts'
import { BlobFiles, hashBlob } from '../blobs/blob-files.ts'
import type { BlobInventory } from '../blobs/blob-store.ts'
import type { StoreLocation } from '../location/location.ts'
import { openBlobInventory, openStoreReader } from '../open.ts'
import type { StoredBlob, StoreReader } from '../port/store.ts'
import type { Finding } from './chain-walk.ts'

const BLOBS_PER_PAGE = 500

export interface BlobVerification {
  /** Number of different blobs, and the sum of their lengths. */
  readonly contents: number
  readonly contentBytes: number
  /** Number of missing blobs of a mirror; otherwise 0. */
  readonly absent: number
  readonly finding: Finding | null
}

export interface VerifyBlobsOptions {
  /**
   * True for the folder of a mirror. Missing blobs are then only counted, because blobs arrive later than the chain.
   */
  readonly isMirror?: boolean
  readonly progress?: (share: number, done: { contents: number; contentBytes: number }) => void
}

/**
 * Recomputes the SHA-256 of every blob to which the entries of `store` refer, and finds files without an entry. Stops
 * at the first difference.
 *
 * The node may be running, so a difference is checked against the current store before it is reported. A file without
 * an entry is accepted while an upload may be running, or after a kill. A missing blob is accepted in a mirror, because
 * it might not be transferred yet, or the source might lack it.
 */
export async function verifyBlobs(
  store: StoreReader,
  location: StoreLocation,
  options: VerifyBlobsOptions = {},
): Promise<BlobVerification> {
  const inventory = await openBlobInventory(location)
  try {
    return await verifyBlobFiles(inventory, store, location, options)
  } finally {
    await inventory.close()
  }
}

/** Like `verifyBlobs`, with the blobs of `inventory`. */
export async function verifyBlobFiles(
  inventory: BlobInventory,
  store: StoreReader,
  location: StoreLocation,
  { isMirror = false, progress }: VerifyBlobsOptions,
): Promise<BlobVerification> {
  const done = { contents: 0, contentBytes: 0, absent: 0 }
  let readBytes = 0
  const all = await store.attachments.countBlobs()
  for (let after = ''; ; ) {
    const page = await store.attachments.blobs(after, BLOBS_PER_PAGE)
    for (const blob of page) {
      const { sha256, length } = blob
      let fault = await findFault(inventory, blob)
      const namedAt = fault === null ? null : await namedNow(location, sha256)
      // Checks the blob again, because it may have been erased and uploaded again in the meantime.
      if (namedAt !== null) fault = await findFault(inventory, blob)
      if (fault === MISSING && namedAt !== null && isMirror) done.absent += 1
      else if (fault !== null && namedAt !== null) {
        const message = `blob ${sha256} ${fault}`
        return { ...done, finding: { ...unpackPosition(namedAt), what: message } }
      } else {
        done.contents += 1
        done.contentBytes += length
      }
      readBytes += length
      progress?.(all.bytes === 0 ? 1 : readBytes / all.bytes, done)
    }
    const last = page.at(-1)
    if (last === undefined) break
    after = last.sha256
  }
  return { ...done, finding: await strayBlob(inventory, store, location) }
}

/** Removes the blobs in `folder` to which entries of `store` refer, but whose bytes do not match their SHA-256. */
export async function removeWrongBlobs(
  { attachments }: Pick<StoreReader, 'attachments'>,
  folder: string,
): Promise<void> {
  const files = new BlobFiles(folder, true)
  for (let page = await attachments.blobs('', BLOBS_PER_PAGE); page.length > 0; ) {
    for (const blob of page) {
      if ((await findFault(files, blob)) === WRONG) await files.remove(blob.sha256)
    }
    page = await attachments.blobs(page.at(-1)?.sha256 ?? '', BLOBS_PER_PAGE)
  }
}

const MISSING = 'is missing'
const WRONG = 'does not match its SHA-256'

/** Returns a description of the defect of a stored blob, or null. */
async function findFault(
  inventory: BlobInventory,
  { sha256, length }: StoredBlob,
): Promise<string | null> {
  const blob = await inventory.open(sha256)
  if (blob === null) return MISSING
  try {
    if (blob.length !== length) return `has ${blob.length} bytes, not ${length}`
    return (await hashBlob(blob, length)) === sha256 ? null : WRONG
  } finally {
    await blob.close()
  }
}

async function strayBlob(
  inventory: BlobInventory,
  store: StoreReader,
  location: StoreLocation,
): Promise<Finding | null> {
  const finding = (what: string): Finding => ({ height: null, index: null, what })
  for await (const found of inventory.list()) {
    if ('otherPath' in found) return finding(`${found.otherPath} is not a blob`)
    const { sha256 } = found
    if ((await store.attachments.namedAt(sha256)) !== null) continue
    if (await inventory.mayBeUnnamed(sha256)) continue
    // A running node may have recorded the blob in the meantime.
    if ((await namedNow(location, sha256)) !== null) continue
    const blob = await inventory.open(sha256)
    if (blob === null) continue
    await blob.close()
    return finding(`blob ${sha256} is stored, but no entry refers to it`)
  }
  return null
}

/** Returns the first entry in the current store at `location` that refers to a blob, or null. */
export async function namedNow(location: StoreLocation, sha256: string): Promise<number | null> {
  const store = await openStoreReader(location, { frozen: false })
  try {
    return await store.attachments.namedAt(sha256)
  } finally {
    await store.close()
  }
}
