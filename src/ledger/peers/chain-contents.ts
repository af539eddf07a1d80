import type { FileHandle } from 'node:fs/promises'
import type { Attachment } from '../../chain/index.ts'
import type { AttachmentReader, BlobStore, StoredBlob } from '../../storage/index.ts'
import { PeerError } from './errors.ts'

/** Bytes of a content that nodes send each other at a time; a request each. */
export const PART_BYTES_MAX = 2 * 1024 * 1024
/** Rows read at a time. */
const ROWS_PER_PAGE = 100
/** Rows looked at for one answer. */
const ROWS_MAX = 1_000

/** A content that is named by a chain and is not here. */
export interface AbsentContent extends StoredBlob {
  /** How many bytes of it have come. */
  readonly bytes: number
}

/** What is not here of the contents that were looked at. */
export interface Absent {
  readonly contents: readonly AbsentContent[]
  /** The packed position up to which entries were looked at; goes on behind it. */
  readonly upTo: number
  /** Whether there are entries behind it, as far as was looked. */
  readonly more: boolean
}

/** The contents of attachments that the entries of one chain name, whether they are here or not. */
export class ChainContents {
  readonly #rows: AttachmentReader
  readonly #contents: BlobStore
  readonly #bytesMax: number

  /** `bytesMax`: of one content; a longer one is not taken from other nodes. */
  constructor(rows: AttachmentReader, contents: BlobStore, bytesMax: number) {
    this.#rows = rows
    this.#contents = contents
    this.#bytesMax = bytesMax
  }

  /**
   * A content with its file, which the caller closes. It has the name and the type of nothing: entries
   * give it theirs. Errors: CONTENT_UNKNOWN, CONTENT_ABSENT.
   */
  async open(sha256: string): Promise<{ attachment: Attachment; file: FileHandle }> {
    const { length } = await this.#named(sha256)
    const file = await this.#contents.read({ sha256, length })
    if (file !== null) {
      const attachment = { content_type: 'application/octet-stream', length, name: sha256, sha256 }
      return { attachment, file }
    }
    throw new PeerError('CONTENT_ABSENT', `the bytes of content ${sha256} are not here`)
  }

  /** Looks behind the entry at `after` (packed; -1 for all) for at most `limit` contents not here. */
  async absent(after: number, limit: number): Promise<Absent> {
    const contents: AbsentContent[] = []
    let upTo = after
    for (let looked = 0; looked < ROWS_MAX; ) {
      const page = await this.#rows.byPosition(upTo, ROWS_PER_PAGE)
      for (const { position, sha256, length } of page) {
        const content = { sha256, length }
        const { isWhole, bytes } = await this.#contents.arrived(content)
        if (!isWhole) contents.push({ ...content, bytes })
        upTo = position
        looked += 1
        if (contents.length === limit) return { contents, upTo, more: true }
      }
      if (page.length === 0) return { contents, upTo, more: false }
    }
    return { contents, upTo, more: true }
  }

  /**
   * Takes `bytes` of a content behind the first `from` ones, and gives how many are here then.
   * Errors: CONTENT_UNKNOWN, CONTENT_TOO_LARGE; CONTENT_DIFFERS, STORE_FULL, STORE_FAILED.
   */
  async add(sha256: string, from: number, bytes: Uint8Array): Promise<number> {
    const { length } = await this.#named(sha256)
    if (length <= this.#bytesMax) {
      return this.#contents.addPart({ sha256, length }, from, bytes)
    }
    throw new PeerError('CONTENT_TOO_LARGE', `a content may have ${this.#bytesMax} bytes here`)
  }

  /** Errors: CONTENT_UNKNOWN. */
  async #named(sha256: string): Promise<StoredBlob> {
    const position = await this.#rows.namedAt(sha256)
    const [row] = position === null ? [] : await this.#rows.byPosition(position - 1, 1)
    if (row?.sha256 === sha256) return row
    throw new PeerError('CONTENT_UNKNOWN', `no entry of this chain names content ${sha256}`)
  }
}
