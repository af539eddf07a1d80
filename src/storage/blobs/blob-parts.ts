import type { FileHandle } from 'node:fs/promises'
import type { StoredBlob } from '../attachments.ts'
import { StoreError } from '../errors.ts'
import { type BlobFiles, withDiskErrors } from './blob-files.ts'
import { sha256Of } from './blob-hash.ts'

/**
 * Contents that come from other nodes in parts, one behind the other, each known by its SHA-256 before
 * it is here. Whoever calls sees to it that one content is worked on by one at a time.
 *
 * What a crash leaves, at each point of `add`:
 * - before the last part: the bytes so far in `incoming/`, behind which the next part goes. What the
 *   disk may have lost of them shows when the whole is hashed; then it begins anew.
 * - after it: the content in its place, which was on the disk before it got there.
 */
export class BlobParts {
  readonly #files: BlobFiles
  readonly #durable: boolean

  /** `durable` false: the folder is thrown away, nothing waits for the disk. */
  constructor(files: BlobFiles, durable: boolean) {
    this.#files = files
    this.#durable = durable
  }

  /**
   * Adds `bytes` behind the first `from` ones of a content; the last part puts it in its place. Gives
   * how many bytes are here then: where the next part begins, also when this one did not begin there.
   * Errors: CONTENT_DIFFERS, after which nothing of it is here; STORE_FULL, STORE_FAILED.
   */
  async add(content: StoredBlob, from: number, bytes: Uint8Array): Promise<number> {
    const { sha256, length } = content
    const file = await this.#files.openPart(sha256)
    let here: number
    try {
      here = (await withDiskErrors(() => file.stat())).size
      if (here === from && here + bytes.length <= length) {
        // The file is open for adding to its end.
        await withDiskErrors(() => file.writeFile(bytes))
        here += bytes.length
      }
      if (here < length) return here
      if (here > length || (await withDiskErrors(() => sha256Of(file, length))) !== sha256) {
        await this.#files.removePart(sha256)
        throw new StoreError('CONTENT_DIFFERS', `what came for content ${sha256} is another one`)
      }
      if (this.#durable) await this.#sync(file, sha256)
    } finally {
      await file.close()
    }
    await this.#files.place(sha256, sha256)
    return here
  }

  /** Syncs the parts; what cannot be synced begins anew, because a second sync would report success. */
  async #sync(file: FileHandle, sha256: string): Promise<void> {
    try {
      await withDiskErrors(() => file.sync())
    } catch (error) {
      await this.#files.removePart(sha256)
      throw error
    }
  }
}
