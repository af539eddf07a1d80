import type {
  AttachmentKey,
  AttachmentRange,
  AttachmentReader,
  AttachmentRow,
  FormerAttachments,
  FormerItem,
  StoredAttachment,
  StoredBlob,
} from '../port/store.ts'
import { type Dialect, type SqlReads, translated } from './dialect.ts'
import {
  integer,
  type Row,
  readAttachmentRow,
  readInteger,
  readStoredAttachment,
  text,
} from './rows.ts'

const COLUMNS = 'position, name, content_type, length, sha256'
const ALL_COLUMNS = `${COLUMNS}, db, id, ended`
/** The position without its index: PostgreSQL would read all attachments in its order to find those of one item. */
const UNINDEXED = 'position + 0'
const NAMED = '(SELECT created FROM databases WHERE name = $1)'
/** The current attachments of item $2 of the database named $1. There are none if the item does not exist. */
const CURRENT = `SELECT ${COLUMNS} FROM attachments WHERE db = ${NAMED} AND id = $2 AND ended IS NULL
  AND position > (SELECT created FROM items WHERE db = ${NAMED} AND id = $2)`

/** The attachments of an item of database $1 with id $2, created at $3, before position $4. */
const BEFORE = `SELECT ${COLUMNS} FROM attachments WHERE db = $1 AND id = $2 AND position > $3
  AND position < $4 AND coalesce(ended, $4) >= $4`

const STATEMENTS = {
  currentBefore: `${BEFORE} AND name = $5`,
  listBefore: `${BEFORE} AND name > $5 ORDER BY name LIMIT $6 OFFSET $7`,
  current: `${CURRENT} AND name = $3`,
  list: `${CURRENT} AND name > $3 ORDER BY name LIMIT $4 OFFSET $5`,
  byPosition: `SELECT ${ALL_COLUMNS} FROM attachments WHERE position > $1 ORDER BY position LIMIT $2`,
  before: `SELECT ${ALL_COLUMNS} FROM attachments
    WHERE db = $1 AND id = $2 AND name = $3 AND position < $4 ORDER BY position DESC LIMIT 1`,
  blobs: `SELECT DISTINCT sha256, length FROM attachments
    WHERE sha256 > $1 ORDER BY sha256, length LIMIT $2`,
  countBlobs: `SELECT count(*), CAST(coalesce(sum(length), 0) AS bigint)
    FROM (SELECT DISTINCT sha256, length FROM attachments) AS blobs`,
  namedAt: `SELECT position FROM attachments WHERE sha256 = $1 ORDER BY ${UNINDEXED} LIMIT 1`,
  at: `SELECT ${ALL_COLUMNS} FROM attachments WHERE position = $1`,
  formerOfItem: `SELECT ${ALL_COLUMNS} FROM attachments WHERE db = $1 AND id = $2
    AND (ended IS NOT NULL OR position < $3) AND ${UNINDEXED} >= $4 AND ${UNINDEXED} < $5
    ORDER BY ${UNINDEXED} LIMIT $6`,
  endedBy: 'SELECT position FROM attachments WHERE sha256 = $1 AND ended = $2',
} as const

const toValues = ({ database, id, created, before }: FormerItem) => [database, id, created, before]
const toPosition = (row: Row): number => readInteger(row, 'position')

export class SqlAttachments implements AttachmentReader {
  readonly #sql
  readonly #reads: SqlReads

  constructor(reads: SqlReads, dialect: Dialect) {
    this.#sql = translated(dialect, STATEMENTS)
    this.#reads = reads
  }

  current(db: string, id: string, name: string): Promise<StoredAttachment | null> {
    return this.#reads.first(this.#sql.current, [db, id, name], readStoredAttachment)
  }

  list(db: string, id: string, range: AttachmentRange): Promise<StoredAttachment[]> {
    const { after = '', limit, offset = 0 } = range
    return this.#reads.all(this.#sql.list, [db, id, after, limit, offset], readStoredAttachment)
  }

  currentBefore(item: FormerItem, name: string): Promise<StoredAttachment | null> {
    const values = [...toValues(item), name]
    return this.#reads.first(this.#sql.currentBefore, values, readStoredAttachment)
  }

  listBefore(item: FormerItem, range: AttachmentRange): Promise<StoredAttachment[]> {
    const { after = '', limit, offset = 0 } = range
    const values = [...toValues(item), after, limit, offset]
    return this.#reads.all(this.#sql.listBefore, values, readStoredAttachment)
  }

  byPosition(after: number, limit: number): Promise<AttachmentRow[]> {
    return this.#reads.all(this.#sql.byPosition, [after, limit], readAttachmentRow)
  }

  before({ database, id, name }: AttachmentKey, position: number): Promise<AttachmentRow | null> {
    return this.#reads.first(this.#sql.before, [database, id, name, position], readAttachmentRow)
  }

  blobs(after: string, limit: number): Promise<StoredBlob[]> {
    return this.#reads.all(this.#sql.blobs, [after, limit], ([sha256, length]) => ({
      sha256: text(sha256, 'sha256'),
      length: integer(length, 'length'),
    }))
  }

  async countBlobs(): Promise<{ blobs: number; bytes: number }> {
    const counts = await this.#reads.first(this.#sql.countBlobs, [], ([blobs, bytes]) => ({
      blobs: integer(blobs, 'blobs'),
      bytes: integer(bytes, 'bytes'),
    }))
    return counts ?? { blobs: 0, bytes: 0 }
  }

  namedAt(sha256: string): Promise<number | null> {
    return this.#reads.first(this.#sql.namedAt, [sha256], toPosition)
  }

  at(position: number): Promise<AttachmentRow | null> {
    return this.#reads.first(this.#sql.at, [position], readAttachmentRow)
  }

  formerOfItem(database: number, id: string, range: FormerAttachments): Promise<AttachmentRow[]> {
    const { created, from, to, limit } = range
    const values = [database, id, created, from, to, limit]
    return this.#reads.all(this.#sql.formerOfItem, values, readAttachmentRow)
  }

  endedBy(position: number, sha256: string): Promise<number | null> {
    return this.#reads.first(this.#sql.endedBy, [sha256, position], toPosition)
  }
}
