import {
  type Attachment,
  type Block,
  findErased,
  packPosition,
  positionText,
  unpackPosition,
} from '../../chain/index.ts'
import type { AttachmentEffect, Effect } from '../port/effect.ts'
import { erasedEntryText, parseEntry } from '../port/erasure.ts'
import {
  type AttachmentReader,
  type AttachmentRow,
  type IdempotencyRecord,
  idempotencyDigest,
  type StoreReader,
} from '../port/store.ts'

const ROWS_PER_PAGE = 500

/** Iterates over rows in the order of their positions, page by page. */
export class RowCursor<Row> {
  readonly #readPage: (after: number, limit: number) => Promise<readonly Row[]>
  readonly #positionOf: (row: Row) => number
  #page: readonly Row[] = []
  #next = 0
  /** Rows up to this position have been read or skipped. */
  #readUpTo = -1
  #hasEnded = false

  constructor(
    readPage: (after: number, limit: number) => Promise<readonly Row[]>,
    positionOf: (row: Row) => number,
  ) {
    this.#readPage = readPage
    this.#positionOf = positionOf
  }

  /** The next row, or undefined if it is not in memory and must be read with `peek`. */
  get buffered(): Row | undefined {
    return this.#page[this.#next]
  }

  /** Returns the next row, or null after the last row. */
  async peek(): Promise<Row | null> {
    if (this.#next === this.#page.length && !this.#hasEnded) {
      const last = this.#page.at(-1)
      if (last !== undefined) this.#readUpTo = Math.max(this.#readUpTo, this.#positionOf(last))
      this.#page = await this.#readPage(this.#readUpTo, ROWS_PER_PAGE)
      this.#next = 0
      this.#hasEnded = this.#page.length === 0
    }
    return this.buffered ?? null
  }

  /** Moves past the next row, which must be in memory. */
  advance(): void {
    this.#next += 1
  }

  /** Returns whether the next row is before `position`; reads only if that is unknown. */
  async isBefore(position: number): Promise<boolean> {
    if (this.buffered === undefined && this.#readUpTo >= position - 1) return false
    const row = await this.peek()
    return row !== null && this.#positionOf(row) < position
  }

  /** Moves past all rows before `position`. */
  skipTo(position: number): void {
    for (let row = this.buffered; row !== undefined; row = this.buffered) {
      if (this.#positionOf(row) >= position) return
      this.#next += 1
    }
    this.#readUpTo = Math.max(this.#readUpTo, position - 1)
  }
}

/**
 * Compares idempotency records with the chain. The entries of a record must exist and have the timestamp of the record.
 * The digest of the record must be correct, which reveals a record that was changed or moved without its digest.
 * Missing records cannot be detected, because records belong to the node and not to the chain, and expire after a day.
 * A count or hash of the records in the same store could be replaced like the records (SECURITY.md, "Meaning of a
 * verification").
 */
export class IdempotencyComparison {
  readonly #records: RowCursor<IdempotencyRecord>

  constructor(store: StoreReader) {
    this.#records = new RowCursor(
      (after, limit) => store.idempotencyRecords(after, limit),
      ({ position }) => position,
    )
  }

  /** Returns whether an unchecked record refers to an entry before `end`. */
  isBefore(end: number): Promise<boolean> {
    return this.#records.isBefore(end)
  }

  /** Checks the records of the next block; returns the first difference, or null. */
  async block({ height, entries, timestamps }: Block): Promise<string | null> {
    const end = packPosition(height + 1, 0)
    for (let row = await this.#records.peek(); row !== null; row = await this.#records.peek()) {
      if (row.position >= end) return null
      const { index } = unpackPosition(row.position)
      const exists = row.entries >= 1 && index + row.entries <= entries.length
      const { digest, ...rest } = row
      if (!exists || row.timestamp !== timestamps[index] || digest !== idempotencyDigest(rest)) {
        return `the idempotency record of ${positionText(row.position)} was changed`
      }
      this.#records.advance()
    }
    return null
  }

  /** Call after the last block. Returns the first difference, or null. */
  async end(): Promise<string | null> {
    const row = await this.#records.peek()
    if (row === null) return null
    return `there is an idempotency record of ${positionText(row.position)}, which is not in the chain`
  }
}

/**
 * Compares the rows of attachments with the chain, entry by entry, in constant memory. Every `create_attachment` entry
 * must have an equal row at its position, and there must be no other row. A row must have ended exactly at the next
 * entry about its name. An erased entry has no row. The row that it ended does not exist either, because an attachment
 * is erased after its predecessor and together with its deletion (docs/decisions/0018-erasure.md). So the remaining
 * rows are compared as usual.
 */
export class AttachmentComparison {
  readonly #reader: AttachmentReader
  readonly #rows: RowCursor<AttachmentRow>
  /** Number of rows with an end, and number of ends found in the chain. */
  #endedRows = 0
  #ends = 0

  constructor(reader: AttachmentReader) {
    this.#reader = reader
    this.#rows = new RowCursor(
      (after, limit) => reader.byPosition(after, limit),
      ({ position }) => position,
    )
  }

  /** Checks the next entry. `database` is the creation position of the entry's database, if that database exists. */
  async entry(effect: AttachmentEffect, database: number | undefined): Promise<string | null> {
    const { kind, db, id, position, attachment } = effect
    if (database === undefined) return `there is no database ${db} at this height`
    const { name } = attachment
    const label = `attachment ${name} of item ${id} of ${db}`
    if (kind === 'create_attachment') {
      const stray = await this.#strayBefore(position)
      if (stray !== null) return stray
      const row = await this.#rows.peek()
      if (row === null || row.position !== position) return `${label} is missing`
      this.#rows.advance()
      if (row.ended !== null) this.#endedRows += 1
      if (row.database !== database || row.id !== id || !isSame(row, attachment))
        return `${label} differs from the chain`
    }
    const former = await this.#reader.before({ database, id, name }, position)
    if (former?.ended === position) {
      this.#ends += 1
      if (kind === 'create_attachment' || isSame(former, attachment)) return null
      return `${label} is deleted here, but the entry differs from the stored attachment`
    }
    if (kind === 'delete_attachment') return `${label} is deleted here, but is not stored`
    if (former === null || (former.ended !== null && former.ended < position)) return null
    return `${label} as of ${positionText(former.position)} is not recorded as replaced here`
  }

  /** Call after the last block. Returns the first difference, or null. */
  async end(): Promise<string | null> {
    const stray = await this.#strayBefore(Number.POSITIVE_INFINITY)
    if (stray !== null || this.#endedRows === this.#ends) return stray
    return `${this.#endedRows} attachments are stored as replaced or deleted; the chain has ${this.#ends}`
  }

  async #strayBefore(position: number): Promise<string | null> {
    const row = await this.#rows.peek()
    if (row === null || row.position >= position) return null
    const at = positionText(row.position)
    return `attachment ${row.name} of item ${row.id} is stored as of ${at}, but the chain has none there`
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

/**
 * Compares the erasures with the chain. Every position in an `erase_item` entry must be recorded as erased by that
 * entry, and must be the position of an erased revision of the item. The numbers of recorded positions, of positions in
 * `erase_item` entries, and of erased entries must be equal. So nobody can change an entry and claim that it was
 * erased.
 */
export class ErasureComparison {
  /** Number of erased entries so far. */
  erased = 0
  readonly #store: StoreReader
  /** Number of positions in `erase_item` entries so far. */
  #named = 0
  readonly #erasers = new Set<number>()
  #block: Block | undefined

  constructor(store: StoreReader) {
    this.#store = store
  }

  /** Checks the erased entries of the next block; returns the first difference, or null. */
  async block(block: Block): Promise<{ readonly index: number; readonly what: string } | null> {
    for (const index of findErased(block)) {
      const position = packPosition(block.height, index)
      if ((await this.#store.eraser(position)) === null) {
        return { index, what: 'the entry has no blind, but no other entry erases it' }
      }
      if (await this.#isCurrent(block.entries[index] ?? '', position)) {
        return { index, what: 'the entry is erased, but is the current revision of its item' }
      }
      this.erased += 1
    }
    return null
  }

  /** Checks the positions in an `erase_item` entry. Returns the first difference, or null. */
  async entry(effect: Extract<Effect, { kind: 'erase_item' }>): Promise<string | null> {
    const { position, positions, db, of } = effect
    this.#named += positions.length
    this.#erasers.add(position)
    for (const one of positions) {
      if (one >= position || (await this.#store.eraser(one)) !== position) {
        return `${positionText(one)} is not recorded as erased by this entry`
      }
      if (!(await this.#isRemainder(one, db, of))) {
        return `${positionText(one)} is not an erased entry of item ${of} of ${db}`
      }
    }
    return null
  }

  /** Call after the last block. Returns the first difference, or null. */
  async end(): Promise<string | null> {
    const recorded = await this.#store.countErased()
    if (recorded !== this.#named || recorded !== this.erased) {
      return `${recorded} entries are recorded as erased, the chain erases ${this.#named}, and ${this.erased} have no blind`
    }
    const stray = (await this.#store.uncompacted()).find((position) => !this.#erasers.has(position))
    if (stray === undefined) return null
    return `${positionText(stray)} is recorded as an erasure, but the chain has none there`
  }

  async #isCurrent(text: string, position: number): Promise<boolean> {
    const entry = parseEntry(text)
    if (entry === null || !('item' in entry)) return false
    return (await this.#store.item(entry.db, entry.item.id))?.revision === position
  }

  async #isRemainder(position: number, db: string, id: string): Promise<boolean> {
    const { height, index } = unpackPosition(position)
    if (this.#block?.height !== height) {
      ;[this.#block] = await this.#store.blocks(this.#store.serverId, height, 1)
    }
    const text = this.#block?.height === height ? this.#block.entries[index] : undefined
    return text !== undefined && erasedEntryText(text, db, id) === text
  }
}
