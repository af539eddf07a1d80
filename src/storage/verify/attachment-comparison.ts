import { type Attachment, positionText } from '../../chain/index.ts'
import type { AttachmentReader, PlacedAttachment } from '../attachments.ts'
import type { AttachmentEffect } from '../effect.ts'

/** Rows read ahead at a time. */
const ROWS_PER_PAGE = 500

/**
 * Compares the rows of attachments with the chain, entry by entry, in constant memory. Every
 * `create_attachment` entry has a row at its position that says the same, and no other row is there;
 * a row is noted as ended exactly where the next entry about its name stands. An erased entry has no
 * row, nor has what it ended: an attachment is erased after what it replaced and with its deletion
 * (docs/decisions/0100-erasing-attachments.md). So all that is left is compared as if nothing was gone.
 */
export class AttachmentComparison {
  readonly #reader: AttachmentReader
  /** Rows that the chain has not come to, and the next of them. */
  #rows: readonly PlacedAttachment[] = []
  #next = 0
  #readUpTo = -1
  /** Rows met that are noted as ended, and ends met in the chain. */
  #noted = 0
  #ended = 0

  constructor(reader: AttachmentReader) {
    this.#reader = reader
  }

  /** What is stored otherwise than `effect` says, or null; `database` is where its database was created. */
  async differs(effect: AttachmentEffect, database: number | undefined): Promise<string | null> {
    const { kind, db, id, position, attachment } = effect
    if (database === undefined) return `there is no database ${db} at this height`
    const { name } = attachment
    const label = `attachment ${name} of item ${id} of ${db}`
    if (kind === 'create_attachment') {
      const stray = await this.#rowsBefore(position)
      if (stray !== null) return stray
      const row = await this.#peek()
      if (row === null || row.position !== position) return `${label} is missing`
      this.#next += 1
      if (row.ended !== null) this.#noted += 1
      if (row.database !== database || row.id !== id || !isSame(row, attachment))
        return `${label} is stored otherwise than the chain says`
    }
    const former = await this.#reader.before({ database, id, name }, position)
    if (former?.ended === position) {
      this.#ended += 1
      if (kind === 'create_attachment' || isSame(former, attachment)) return null
      return `${label} is deleted here, but described otherwise than it is stored`
    }
    if (kind === 'delete_attachment') return `${label} is deleted here, where it is not stored`
    if (former === null || (former.ended !== null && former.ended < position)) return null
    return `${label} as of ${positionText(former.position)} is not noted as replaced here`
  }

  /** After the last block: rows and ends that no entry made. */
  async end(): Promise<string | null> {
    const stray = await this.#rowsBefore(Number.POSITIVE_INFINITY)
    if (stray !== null || this.#noted === this.#ended) return stray
    return `${this.#noted} attachments are stored as ended; the chain ends ${this.#ended}`
  }

  async #rowsBefore(position: number): Promise<string | null> {
    const row = await this.#peek()
    if (row === null || row.position >= position) return null
    const at = positionText(row.position)
    return `attachment ${row.name} of item ${row.id} is stored as of ${at}, where the chain has none`
  }

  async #peek(): Promise<PlacedAttachment | null> {
    if (this.#next === this.#rows.length) {
      this.#readUpTo = this.#rows.at(-1)?.position ?? this.#readUpTo
      this.#rows = await this.#reader.byPosition(this.#readUpTo, ROWS_PER_PAGE)
      this.#next = 0
    }
    return this.#rows[this.#next] ?? null
  }
}

function isSame(one: Attachment, other: Attachment): boolean {
  return (
    one.name === other.name &&
    one.content_type === other.content_type &&
    one.length === other.length &&
    one.sha256 === other.sha256
  )
}
