import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { StoreError } from '../port/errors.ts'
import type { AttachmentReader, StoredBlob } from '../port/store.ts'
import { BlobFiles, hashBlob, OpenFile, withDiskErrors } from './blob-files.ts'
import type { BlobStore, OpenBlob, RecordOutcome } from './blob-store.ts'
import { BlobTasks } from './blob-tasks.ts'

/** Interval in bytes at which received bytes are synced, so that the last sync is short. */
const SYNC_INTERVAL_BYTES = 32 * 1024 * 1024

/**
 * Blobs as files in a data folder.
 *
 * A crash during `add` leaves
 * - while bytes arrive, or before the rename: a file in `incoming/`, which `recover` removes;
 * - after the rename, before the entry is durable: a blob to which no row refers, which `recover` removes;
 * - after the entry is durable: the whole blob and its entry.
 * So no entry ever refers to a missing blob.
 *
 * Renames and removals of one blob run one after another. A blob that an upload has renamed is pinned until its entry
 * is durable or rejected. A removal checks the rows when it runs. So neither another upload of the same bytes nor a
 * concurrent removal removes a file that an entry needs.
 */
export class FileBlobStore implements BlobStore {
  readonly #files: BlobFiles
  readonly #rows: Pick<AttachmentReader, 'namedAt'>
  readonly #durable: boolean
  /** Number of uploads, per blob, that have renamed the blob and wait for their entry. */
  readonly #pins = new Map<string, number>()
  readonly #tasks = new BlobTasks()
  #foldersCreated: Promise<void> | null = null
  #lastNumber = 0
  /** Whether the next start must search for leftovers. */
  #needsRecovery = false

  /** `durable` is false for a temporary folder, in which nothing is synced. */
  constructor(folder: string, rows: Pick<AttachmentReader, 'namedAt'>, durable: boolean) {
    this.#files = new BlobFiles(folder, durable)
    this.#rows = rows
    this.#durable = durable
  }

  async recover(): Promise<void> {
    if (!(await this.#files.hasIncomingFolder())) return
    for await (const found of this.#files.list()) {
      if ('sha256' in found) await this.#removeUnlessNamed(found.sha256)
    }
    await this.#files.clearIncoming(async (sha256) => (await this.#rows.namedAt(sha256)) !== null)
    await this.#files.removeIncomingFolder()
  }

  async recoverWithoutRows(): Promise<void> {
    if (!(await this.#files.hasIncomingFolder())) return
    await this.#files.clearIncoming(async () => true)
    this.#needsRecovery = true
  }

  add<Result>(
    chunks: AsyncIterable<Uint8Array>,
    record: (blob: StoredBlob) => Promise<Result>,
    { mayBeRecorded, isRecorded }: RecordOutcome<Result>,
  ): Promise<Result> {
    return this.#tasks.run(async () => {
      await this.#createFolders()
      this.#lastNumber += 1
      const number = this.#lastNumber
      const blob = await this.#receive(number, chunks)
      const { sha256 } = blob
      try {
        await this.#tasks.inOrder(sha256, async () => {
          this.#pin(sha256, 1)
          await this.#files.moveIntoPlace(number, sha256)
        })
        const result = await record(blob)
        this.#pin(sha256, -1)
        if (!isRecorded(result)) await this.#discard(number, sha256)
        return result
      } catch (error) {
        this.#pin(sha256, -1)
        if (mayBeRecorded(error)) this.#needsRecovery = true
        else await this.#discard(number, sha256)
        throw error
      }
    })
  }

  async progress({ sha256, length }: StoredBlob): Promise<{ isComplete: boolean; bytes: number }> {
    const isComplete = (await this.#files.countBytes(sha256)) === length
    return { isComplete, bytes: isComplete ? length : await this.#files.countPartBytes(sha256) }
  }

  /**
   * A crash before the last part leaves the received bytes in `incoming/`. If the disk lost some of these bytes, the
   * hash of the whole blob is wrong, and the transfer starts again.
   */
  addPart(blob: StoredBlob, from: number, bytes: Uint8Array): Promise<number> {
    const { sha256, length } = blob
    return this.#tasks.run(async () => {
      await this.#createFolders()
      const arrived = await this.#tasks.inOrder(sha256, async () => {
        if ((await this.progress(blob)).isComplete) return length
        return this.#append(blob, from, bytes)
      })
      if (arrived === length) await this.#removeUnlessNamed(sha256)
      return arrived
    })
  }

  eraseRows<Result>(
    erase: () => Promise<{ result: Result; freed: readonly string[] }>,
    mayBeRecorded: (error: unknown) => boolean,
  ): Promise<Result> {
    return this.#tasks.run(async () => {
      // Creates the incoming folder, by which the next start detects a crash during the erasure.
      await this.#createFolders()
      const { result, freed } = await erase().catch((error: unknown) => {
        if (mayBeRecorded(error)) this.#needsRecovery = true
        throw error
      })
      try {
        for (const sha256 of freed) await this.#removeUnlessNamed(sha256)
      } catch (error) {
        this.#needsRecovery = true
        throw error
      }
      return result
    })
  }

  async read({ sha256, length }: StoredBlob): Promise<OpenBlob | null> {
    const file = await this.#files.open(sha256)
    if (file === null) return null
    try {
      const first = await file.read(Buffer.alloc(Math.min(length, 1)), 0)
      if (file.length === length && first === Math.min(length, 1)) return file
    } catch (error) {
      await file.close()
      throw error
    }
    await file.close()
    return null
  }

  async close(): Promise<void> {
    await this.#tasks.ended()
    if (this.#foldersCreated !== null && !this.#needsRecovery)
      await this.#files.removeIncomingFolder()
  }

  async #receive(number: number, chunks: AsyncIterable<Uint8Array>): Promise<StoredBlob> {
    const file = await this.#files.createIncoming(number)
    try {
      const blob = await this.#write(file, chunks)
      await withDiskErrors(() => file.close())
      return blob
    } catch (error) {
      await file.close().catch(() => {})
      await this.#files.removeIncoming(number).catch(() => {
        this.#needsRecovery = true
      })
      throw error
    }
  }

  async #write(file: FileHandle, chunks: AsyncIterable<Uint8Array>): Promise<StoredBlob> {
    const hash = createHash('sha256')
    let syncing: Promise<unknown> = Promise.resolve()
    let [length, unsynced] = [0, 0]
    for await (const chunk of chunks) {
      // Hashes the chunk while a thread writes it, because a chunk is only valid until the next chunk is requested.
      const writing = withDiskErrors(() => writeAll(file, chunk))
      hash.update(chunk)
      await writing
      length += chunk.length
      unsynced += chunk.length
      if (unsynced < SYNC_INTERVAL_BYTES || !this.#durable) continue
      unsynced = 0
      await syncing
      syncing = withDiskErrors(() => file.datasync())
      // Prevents an unhandled rejection; the next `await syncing` throws the error.
      syncing.catch(() => {})
    }
    await syncing
    if (this.#durable) await withDiskErrors(() => file.sync())
    return { sha256: hash.digest('hex'), length }
  }

  async #append({ sha256, length }: StoredBlob, from: number, bytes: Uint8Array): Promise<number> {
    const file = await this.#files.openPart(sha256)
    let arrived: number
    try {
      arrived = (await withDiskErrors(() => file.stat())).size
      if (arrived === from && arrived + bytes.length <= length) {
        // Writes at the end, because the file is open for appending.
        await withDiskErrors(() => file.writeFile(bytes))
        arrived += bytes.length
      }
      if (arrived < length) return arrived
      const whole = new OpenFile(file, arrived)
      if (arrived > length || (await hashBlob(whole, length)) !== sha256) {
        await this.#files.removeIncoming(sha256)
        throw new StoreError(
          'CONTENT_DIFFERS',
          `the received bytes do not have the SHA-256 ${sha256}`,
        )
      }
      if (this.#durable) await this.#syncPart(file, sha256)
    } finally {
      await file.close()
    }
    await this.#files.moveIntoPlace(sha256, sha256)
    return arrived
  }

  /** Syncs a part. A failed sync restarts the transfer, because a second sync would wrongly report success. */
  async #syncPart(file: FileHandle, sha256: string): Promise<void> {
    try {
      await withDiskErrors(() => file.sync())
    } catch (error) {
      await this.#files.removeIncoming(sha256)
      throw error
    }
  }

  async #discard(number: number, sha256: string): Promise<void> {
    try {
      await this.#files.removeIncoming(number)
      await this.#removeUnlessNamed(sha256)
    } catch {
      this.#needsRecovery = true
    }
  }

  #removeUnlessNamed(sha256: string): Promise<void> {
    return this.#tasks.inOrder(sha256, async () => {
      // An upload that has pinned the blob either records it, or calls this method again if recording fails.
      if (this.#pins.has(sha256)) return
      if ((await this.#rows.namedAt(sha256)) !== null) return
      await this.#files.removeIncoming(sha256)
      await this.#files.remove(sha256)
    })
  }

  #createFolders(): Promise<void> {
    this.#foldersCreated ??= this.#files.createFolders().catch((error) => {
      this.#foldersCreated = null
      throw error
    })
    return this.#foldersCreated
  }

  #pin(sha256: string, by: 1 | -1): void {
    const count = (this.#pins.get(sha256) ?? 0) + by
    if (count > 0) this.#pins.set(sha256, count)
    else this.#pins.delete(sha256)
  }
}

async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, at, bytes.length - at)
    at += bytesWritten
  }
}
