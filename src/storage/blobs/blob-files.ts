import { constants } from 'node:fs'
import { type FileHandle, mkdir, open, opendir, rename, rm, rmdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isNoRoom, StoreError } from '../errors.ts'

/** Where contents lie in a data folder: `attachments/ab/cdef…`, named by their SHA-256. */
const FOLDER = 'attachments'
/**
 * Where contents are while they arrive. It is there from the first upload of a process until the
 * process closes, so finding it at a start says that the last one did not close.
 */
const INCOMING = 'incoming'

/** The files of contents in one data folder; knows names and the disk, not who refers to what. */
export class BlobFiles {
  readonly #folder: string
  readonly #root: string
  /** Whether directories are brought to the disk; files are by whoever writes them. */
  readonly #durable: boolean

  constructor(folder: string, durable: boolean) {
    this.#folder = folder
    this.#root = join(folder, FOLDER)
    this.#durable = durable
  }

  /** Makes the folders; once they are there, a crash is seen at the next start. */
  async begin(): Promise<void> {
    await withDiskErrors(async () => {
      await mkdir(join(this.#root, INCOMING), { recursive: true, mode: 0o700 })
      await this.#sync(this.#root)
      await this.#sync(this.#folder)
    })
  }

  /** Says that the process has closed: no leftovers are to be looked for, unless parts are kept. */
  async end(): Promise<void> {
    await rmdir(join(this.#root, INCOMING)).catch((error) => {
      if (codeOf(error) !== 'ENOTEMPTY') unlessMissing(error)
    })
  }

  /** Whether a process is using the folder, or one was killed that did. */
  async isUnsettled(): Promise<boolean> {
    try {
      await (await opendir(join(this.#root, INCOMING))).close()
      return true
    } catch (error) {
      unlessMissing(error)
      return false
    }
  }

  /** A new file to write to; `number` is used once by a process. */
  createIncoming(number: number): Promise<FileHandle> {
    return withDiskErrors(() => this.#openIncoming(number, 'wx'))
  }

  /** Gives up a file that was not placed. */
  async removeIncoming(number: number): Promise<void> {
    await withDiskErrors(() => rm(this.#incoming(number), { force: true }))
  }

  /** The file of a content that comes in parts, for reading and for adding to its end. */
  openPart(sha256: string): Promise<FileHandle> {
    return withDiskErrors(() => this.#openIncoming(sha256, 'a+'))
  }

  /** Gives up the parts of a content; that is all right when there are none. */
  async removePart(sha256: string): Promise<void> {
    await withDiskErrors(() => rm(this.#incoming(sha256), { force: true }))
  }

  /** How many bytes of a content are in its place; null when there is no file. */
  bytesOf(sha256: string): Promise<number | null> {
    return withDiskErrors(() => sizeOf(this.#path(sha256)))
  }

  /** How many bytes of it have come in parts. */
  async bytesOfParts(sha256: string): Promise<number> {
    return (await withDiskErrors(() => sizeOf(this.#incoming(sha256)))) ?? 0
  }

  /**
   * Puts an arrived file, whose bytes are on the disk, in its place. A file that is there already is
   * exchanged for it: equal bytes, and should the old ones have been damaged, whole ones again. Both
   * directories are synced, also when another upload made them and has not come to it yet.
   */
  async place(arrived: number | string, sha256: string): Promise<void> {
    await withDiskErrors(async () => {
      const folder = join(this.#root, sha256.slice(0, 2))
      await mkdir(folder, { recursive: true, mode: 0o700 })
      await rename(this.#incoming(arrived), this.#path(sha256))
      await this.#sync(folder)
      await this.#sync(this.#root)
    })
  }

  /** The file of a content for reading, or null when there is none. */
  async read(sha256: string): Promise<FileHandle | null> {
    try {
      return await open(this.#path(sha256), constants.O_RDONLY | constants.O_NOFOLLOW)
    } catch (error) {
      unlessMissing(error)
      return null
    }
  }

  /** Removes a content, for good; that is all right when it is not there. */
  async remove(sha256: string): Promise<void> {
    await withDiskErrors(async () => {
      await rm(this.#path(sha256), { force: true })
      await this.#sync(join(this.#root, sha256.slice(0, 2))).catch(unlessMissing)
    })
  }

  /** Removes what had been arriving when a process was killed, but for parts of what `isNamed`. */
  async clearIncoming(isNamed: (sha256: string) => Promise<boolean>): Promise<void> {
    for await (const { name } of entriesOf(join(this.#root, INCOMING))) {
      if (/^[0-9a-f]{64}$/.test(name) && (await isNamed(name))) continue
      await rm(join(this.#root, INCOMING, name), { recursive: true, force: true })
    }
  }

  /**
   * What lies in the folder, one after the other: the SHA-256 of contents, or the path of what is
   * none, from the data folder on.
   */
  async *list(): AsyncGenerator<{ readonly sha256: string } | { readonly foreign: string }> {
    for await (const { name } of entriesOf(this.#root)) {
      if (name === INCOMING) continue
      if (!/^[0-9a-f]{2}$/.test(name)) yield { foreign: join(FOLDER, name) }
      else yield* this.#listIn(name)
    }
  }

  async *#listIn(start: string) {
    for await (const entry of entriesOf(join(this.#root, start))) {
      const isContent = entry.isFile() && /^[0-9a-f]{62}$/.test(entry.name)
      if (isContent) yield { sha256: start + entry.name }
      else yield { foreign: join(FOLDER, start, entry.name) }
    }
  }

  #path(sha256: string): string {
    return join(this.#root, sha256.slice(0, 2), sha256.slice(2))
  }

  /** Makes the folders again where somebody has removed them since. */
  async #openIncoming(name: number | string, flags: 'wx' | 'a+'): Promise<FileHandle> {
    try {
      return await open(this.#incoming(name), flags, 0o600)
    } catch (error) {
      unlessMissing(error)
      await this.begin()
      return open(this.#incoming(name), flags, 0o600)
    }
  }

  /** By the number of an upload, or by the SHA-256 of what comes in parts. */
  #incoming(name: number | string): string {
    return join(this.#root, INCOMING, String(name))
  }

  async #sync(path: string): Promise<void> {
    if (!this.#durable) return
    const directory = await open(path, 'r')
    try {
      await directory.sync()
    } finally {
      await directory.close()
    }
  }
}

/** Errors: STORE_FULL for no room, STORE_FAILED for anything else that `work` meets. */
export async function withDiskErrors<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof StoreError) throw error
    if (isNoRoom(error)) {
      throw new StoreError('STORE_FULL', 'there is no room left on the disk', { cause: error })
    }
    const reason = error instanceof Error ? error.message : String(error)
    throw new StoreError('STORE_FAILED', `the disk failed: ${reason}`, { cause: error })
  }
}

async function sizeOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).size
  } catch (error) {
    unlessMissing(error)
    return null
  }
}

/** The entries of a directory, or none when it is not there. */
async function* entriesOf(path: string) {
  try {
    yield* await opendir(path)
  } catch (error) {
    if (codeOf(error) === 'ENOTDIR') return
    unlessMissing(error)
  }
}

function unlessMissing(error: unknown): void {
  if (codeOf(error) !== 'ENOENT') throw error
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}
