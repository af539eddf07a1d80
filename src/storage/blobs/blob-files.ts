import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, mkdir, open, opendir, rename, rm, rmdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode, errorMessage, isDiskFull } from '../../base/errors.ts'
import { inheritOwner, syncFolder } from '../../base/files/durable-files.ts'
import { diskFull, StoreError } from '../port/errors.ts'
import type { BlobInventory, OpenBlob } from './blob-store.ts'

/** Name of the folder of blobs in a data folder. The path of a blob is `attachments/ab/cdef…`, from its SHA-256. */
const FOLDER = 'attachments'
/**
 * The folder of blobs that are being received. It exists from the first upload of a process until its clean shutdown,
 * so a start that finds this folder detects that the last process was killed.
 */
const INCOMING = 'incoming'

const HASH_CHUNK_BYTES = 1024 * 1024

export class BlobFiles implements BlobInventory {
  readonly #folder: string
  readonly #root: string
  /** Whether directories are synced; the caller syncs the files. */
  readonly #durable: boolean

  constructor(folder: string, durable: boolean) {
    this.#folder = folder
    this.#root = join(folder, FOLDER)
    this.#durable = durable
  }

  /** Creates the folders. If the incoming folder still exists at the next start, the last process was killed. */
  async createFolders(): Promise<void> {
    await withDiskErrors(async () => {
      const incoming = join(this.#root, INCOMING)
      await mkdir(incoming, { recursive: true, mode: 0o700 })
      for (const path of [this.#root, incoming]) inheritOwner(path)
      await this.#sync(this.#root)
      await this.#sync(this.#folder)
    })
  }

  /** Removes the folder of incoming blobs, unless it contains parts. */
  async removeIncomingFolder(): Promise<void> {
    await rmdir(join(this.#root, INCOMING)).catch((error) => {
      if (errorCode(error) !== 'ENOTEMPTY') unlessMissing(error)
    })
  }

  /** Returns whether a process is using the folder, or was killed while using it. */
  async hasIncomingFolder(): Promise<boolean> {
    try {
      await (await opendir(join(this.#root, INCOMING))).close()
      return true
    } catch (error) {
      unlessMissing(error)
      return false
    }
  }

  /** Creates an incoming file for writing. `number` must be new in this process. */
  createIncoming(number: number): Promise<FileHandle> {
    return withDiskErrors(() => this.#openIncoming(number, 'wx'))
  }

  /** Removes an incoming file, if it exists. `name` is the number of an upload, or the SHA-256 of a blob in parts. */
  async removeIncoming(name: number | string): Promise<void> {
    await withDiskErrors(() => rm(this.#incoming(name), { force: true }))
  }

  /** Opens the file of a blob that arrives in parts, for reading and appending. */
  openPart(sha256: string): Promise<FileHandle> {
    return withDiskErrors(() => this.#openIncoming(sha256, 'a+'))
  }

  /** Returns the size of a blob, or null if there is no file. */
  countBytes(sha256: string): Promise<number | null> {
    return withDiskErrors(() => readSize(this.#path(sha256)))
  }

  async countPartBytes(sha256: string): Promise<number> {
    return (await withDiskErrors(() => readSize(this.#incoming(sha256)))) ?? 0
  }

  /**
   * Moves a synced incoming file to its final name. Replaces an existing file, which repairs a damaged blob. Syncs both
   * directories, even if another upload created them, because that upload might not have synced them yet.
   */
  async moveIntoPlace(incomingName: number | string, sha256: string): Promise<void> {
    await withDiskErrors(async () => {
      const folder = join(this.#root, sha256.slice(0, 2))
      await mkdir(folder, { recursive: true, mode: 0o700 })
      inheritOwner(folder)
      inheritOwner(this.#incoming(incomingName))
      await rename(this.#incoming(incomingName), this.#path(sha256))
      await this.#sync(folder)
      await this.#sync(this.#root)
    })
  }

  async open(sha256: string): Promise<OpenBlob | null> {
    return withDiskErrors(async () => {
      const handle = await this.#open(sha256)
      if (handle === null) return null
      try {
        return new OpenFile(handle, (await handle.stat()).size)
      } catch (error) {
        await handle.close()
        throw error
      }
    })
  }

  mayBeUnnamed(): Promise<boolean> {
    return this.hasIncomingFolder()
  }

  async close(): Promise<void> {}

  async remove(sha256: string): Promise<void> {
    await withDiskErrors(async () => {
      await rm(this.#path(sha256), { force: true })
      await this.#sync(join(this.#root, sha256.slice(0, 2))).catch(unlessMissing)
    })
  }

  /** Removes the incoming files of a killed process, except parts of blobs for which `isNamed` returns true. */
  async clearIncoming(isNamed: (sha256: string) => Promise<boolean>): Promise<void> {
    for await (const { name } of readEntries(join(this.#root, INCOMING))) {
      if (/^[0-9a-f]{64}$/.test(name) && (await isNamed(name))) continue
      await rm(join(this.#root, INCOMING, name), { recursive: true, force: true })
    }
  }

  /** Lists the folder: the SHA-256 of each blob, and the path (from the data folder) of any other file. */
  async *list(): AsyncGenerator<{ readonly sha256: string } | { readonly otherPath: string }> {
    for await (const { name } of readEntries(this.#root)) {
      if (name === INCOMING) continue
      if (!/^[0-9a-f]{2}$/.test(name)) yield { otherPath: join(FOLDER, name) }
      else yield* this.#listFolder(name)
    }
  }

  async *#listFolder(prefix: string) {
    for await (const entry of readEntries(join(this.#root, prefix))) {
      const isBlob = entry.isFile() && /^[0-9a-f]{62}$/.test(entry.name)
      if (isBlob) yield { sha256: prefix + entry.name }
      else yield { otherPath: join(FOLDER, prefix, entry.name) }
    }
  }

  async #open(sha256: string): Promise<FileHandle | null> {
    try {
      return await open(this.#path(sha256), constants.O_RDONLY | constants.O_NOFOLLOW)
    } catch (error) {
      unlessMissing(error)
      return null
    }
  }

  #path(sha256: string): string {
    return join(this.#root, sha256.slice(0, 2), sha256.slice(2))
  }

  /** Opens an incoming file. Creates the folders again if they were removed. */
  async #openIncoming(name: number | string, flags: 'wx' | 'a+'): Promise<FileHandle> {
    try {
      return await open(this.#incoming(name), flags, 0o600)
    } catch (error) {
      unlessMissing(error)
      await this.createFolders()
      return open(this.#incoming(name), flags, 0o600)
    }
  }

  #incoming(name: number | string): string {
    return join(this.#root, INCOMING, String(name))
  }

  async #sync(path: string): Promise<void> {
    if (this.#durable) await syncFolder(path)
  }
}

/** Runs `work`. Errors: STORE_FULL if the disk is full, STORE_FAILED for any other failure. */
export async function withDiskErrors<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof StoreError) throw error
    if (isDiskFull(error)) throw diskFull(error)
    const reason = errorMessage(error)
    throw new StoreError('STORE_FAILED', `the disk failed: ${reason}`, { cause: error })
  }
}

async function readSize(path: string): Promise<number | null> {
  try {
    return (await stat(path)).size
  } catch (error) {
    unlessMissing(error)
    return null
  }
}

/** Lists a directory; a missing directory counts as empty. */
async function* readEntries(path: string) {
  try {
    yield* await opendir(path)
  } catch (error) {
    if (errorCode(error) === 'ENOTDIR') return
    unlessMissing(error)
  }
}

function unlessMissing(error: unknown): void {
  if (errorCode(error) !== 'ENOENT') throw error
}

export class OpenFile implements OpenBlob {
  readonly length: number
  readonly #handle: FileHandle

  constructor(handle: FileHandle, length: number) {
    this.#handle = handle
    this.length = length
  }

  read(target: Uint8Array, at: number): Promise<number> {
    return withDiskErrors(async () => {
      let filled = 0
      while (filled < target.length) {
        const { bytesRead } = await this.#handle.read(
          target,
          filled,
          target.length - filled,
          at + filled,
        )
        if (bytesRead === 0) break
        filled += bytesRead
      }
      return filled
    })
  }

  close(): Promise<void> {
    return this.#handle.close()
  }
}

/** Returns the SHA-256, in hex, of at most the first `length` bytes of `blob`. */
export async function hashBlob(blob: OpenBlob, length: number): Promise<string> {
  const hash = createHash('sha256')
  const chunk = Buffer.allocUnsafe(Math.min(HASH_CHUNK_BYTES, length))
  for (let at = 0; at < length; ) {
    const bytes = await blob.read(chunk.subarray(0, Math.min(chunk.length, length - at)), at)
    if (bytes === 0) break
    hash.update(chunk.subarray(0, bytes))
    at += bytes
  }
  return hash.digest('hex')
}
