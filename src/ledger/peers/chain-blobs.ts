import type { FileHandle } from 'node:fs/promises'
import type { Attachment } from '../../chain/index.ts'
import type { AttachmentReader, BlobStore, StoredBlob } from '../../storage/index.ts'
import { PeerError } from './errors.ts'

/** Maximum bytes of a blob in one request between nodes. */
export const PART_BYTES_MAX = 2 * 1024 * 1024
const ROWS_PER_PAGE = 100
/** Maximum rows that one call of `absent` checks. */
const ROWS_MAX = 1_000

/** A blob that the chain names and that is not here. */
export interface AbsentBlob extends StoredBlob {
  /** Number of its bytes that have arrived. */
  readonly bytes: number
}

/** A page of absent blobs. */
export interface AbsentBlobs {
  readonly blobs: readonly AbsentBlob[]
  /** Packed position of the last entry that was checked. The next page begins after it. */
  readonly upTo: number
  readonly more: boolean
}

/** The blobs (contents of attachments) that the entries of one chain name, here or not. */
export class ChainBlobs {
  readonly #rows: AttachmentReader
  readonly #files: BlobStore
  readonly #bytesMax: number

  /** `bytesMax`: maximum bytes of a blob that is taken from another node. */
  constructor(rows: AttachmentReader, files: BlobStore, bytesMax = Number.POSITIVE_INFINITY) {
    this.#rows = rows
    this.#files = files
    this.#bytesMax = bytesMax
  }

  /**
   * Opens the file of a blob, which the caller closes. Its attachment has no name or type of its own,
   * since several entries may name it. Errors: CONTENT_UNKNOWN, CONTENT_ABSENT.
   */
  async open(sha256: string): Promise<{ attachment: Attachment; file: FileHandle }> {
    const { length } = await this.#blob(sha256)
    const file = await this.#files.read({ sha256, length })
    if (file !== null) {
      const attachment = { content_type: 'application/octet-stream', length, name: sha256, sha256 }
      return { attachment, file }
    }
    throw new PeerError('CONTENT_ABSENT', `the bytes of content ${sha256} are not here`)
  }

  /** Lists at most `limit` absent blobs that entries after position `after` (packed; -1: all) name. */
  async absent(after: number, limit: number): Promise<AbsentBlobs> {
    const blobs: AbsentBlob[] = []
    let upTo = after
    for (let checked = 0; checked < ROWS_MAX; ) {
      const page = await this.#rows.byPosition(upTo, ROWS_PER_PAGE)
      for (const { position, sha256, length } of page) {
        const { isWhole, bytes } = await this.#files.arrived({ sha256, length })
        if (!isWhole) blobs.push({ sha256, length, bytes })
        upTo = position
        checked += 1
        if (blobs.length === limit) return { blobs, upTo, more: true }
      }
      if (page.length === 0) return { blobs, upTo, more: false }
    }
    return { blobs, upTo, more: true }
  }

  /**
   * Stores `bytes` of a blob that follow its first `from` ones; returns how many bytes are here then.
   * Errors: CONTENT_UNKNOWN, CONTENT_TOO_LARGE; CONTENT_DIFFERS, STORE_FULL, STORE_FAILED.
   */
  async add(sha256: string, from: number, bytes: Uint8Array): Promise<number> {
    const { length } = await this.#blob(sha256)
    if (length <= this.#bytesMax) return this.#files.addPart({ sha256, length }, from, bytes)
    throw new PeerError('CONTENT_TOO_LARGE', `a content may have ${this.#bytesMax} bytes here`)
  }

  /** Errors: CONTENT_UNKNOWN. */
  async #blob(sha256: string): Promise<StoredBlob> {
    const position = await this.#rows.namedAt(sha256)
    const [row] = position === null ? [] : await this.#rows.byPosition(position - 1, 1)
    if (row?.sha256 === sha256) return row
    throw new PeerError('CONTENT_UNKNOWN', `no entry of this chain names content ${sha256}`)
  }
}
