import type { DatabaseSync } from 'node:sqlite'
import type { AttachmentEffect } from '../port/effect.ts'
import type {
  AttachmentKey,
  AttachmentRange,
  AttachmentReader,
  AttachmentRow,
  StoredAttachment,
  StoredBlob,
} from '../port/store.ts'
import { attachmentOf, attachmentRowOf, integer, integerOf, type Row, text } from '../sql/rows.ts'
import type { Reads } from './reads.ts'
import { LIMIT, queriesOf } from './statements.ts'

const COLUMNS = 'position, name, content_type, length, sha256'
const ALL_COLUMNS = `${COLUMNS}, db, id, ended`
const OF_ITEM = `db = ? AND id = ? AND ended IS NULL`

const READ = {
  item: `SELECT db, created FROM items
    WHERE db = (SELECT created FROM databases WHERE name = ?) AND id = ?`,
  current: `SELECT ${COLUMNS} FROM attachments WHERE ${OF_ITEM} AND name = ? AND position > ?`,
  list: `SELECT ${COLUMNS} FROM attachments
    WHERE ${OF_ITEM} AND name > ? AND position > ? ORDER BY name ${LIMIT} OFFSET ?`,
  byPosition: `SELECT ${ALL_COLUMNS} FROM attachments WHERE position > ? ORDER BY position ${LIMIT}`,
  before: `SELECT ${ALL_COLUMNS} FROM attachments
    WHERE db = ? AND id = ? AND name = ? AND position < ? ORDER BY position DESC LIMIT 1`,
  blobs: `SELECT DISTINCT sha256, length FROM attachments
    WHERE sha256 > ? ORDER BY sha256, length ${LIMIT}`,
  countBlobs: `SELECT count(*), coalesce(sum(length), 0)
    FROM (SELECT DISTINCT sha256, length FROM attachments)`,
  namedAt: 'SELECT position FROM attachments WHERE sha256 = ? ORDER BY position LIMIT 1',
  at: `SELECT ${ALL_COLUMNS} FROM attachments WHERE position = ?`,
  ofItem: `SELECT ${ALL_COLUMNS} FROM attachments WHERE db = ? AND id = ? ${LIMIT}`,
  endedBy: 'SELECT position FROM attachments WHERE sha256 = ? AND ended = ?',
} as const

/** Reads attachments, on the connection and in the view of its store. */
export class SqliteAttachments implements AttachmentReader {
  readonly #sql
  readonly #reads: Reads

  constructor(connection: DatabaseSync, reads: Reads) {
    this.#sql = queriesOf(connection, READ)
    this.#reads = reads
  }

  async current(db: string, id: string, name: string): Promise<StoredAttachment | null> {
    return this.#reads.run(() => {
      const item = this.#item(db, id)
      if (item === null) return null
      return this.#reads.first(
        this.#sql.current,
        [item.database, id, name, item.created],
        attachmentOf,
      )
    })
  }

  async list(db: string, id: string, range: AttachmentRange): Promise<StoredAttachment[]> {
    return this.#reads.run(() => {
      const item = this.#item(db, id)
      if (item === null) return []
      const { after = '', limit, offset = 0 } = range
      const values = [item.database, id, after, item.created, limit, offset]
      return this.#reads.all(this.#sql.list, values, attachmentOf)
    })
  }

  async byPosition(after: number, limit: number): Promise<AttachmentRow[]> {
    return this.#reads.all(this.#sql.byPosition, [after, limit], attachmentRowOf)
  }

  async before(attachment: AttachmentKey, position: number): Promise<AttachmentRow | null> {
    const { database, id, name } = attachment
    return this.#reads.first(this.#sql.before, [database, id, name, position], attachmentRowOf)
  }

  async blobs(after: string, limit: number): Promise<StoredBlob[]> {
    return this.#reads.all(this.#sql.blobs, [after, limit], ([sha256, length]) => ({
      sha256: text(sha256, 'sha256'),
      length: integer(length, 'length'),
    }))
  }

  async countBlobs(): Promise<{ blobs: number; bytes: number }> {
    const counts = this.#reads.first(this.#sql.countBlobs, [], ([blobs, bytes]) => ({
      blobs: integer(blobs, 'blobs'),
      bytes: integer(bytes, 'bytes'),
    }))
    return counts ?? { blobs: 0, bytes: 0 }
  }

  async namedAt(sha256: string): Promise<number | null> {
    return this.#reads.first(this.#sql.namedAt, [sha256], positionOf)
  }

  async at(position: number): Promise<AttachmentRow | null> {
    return this.#reads.first(this.#sql.at, [position], attachmentRowOf)
  }

  async ofItem(database: number, id: string, limit: number): Promise<AttachmentRow[]> {
    return this.#reads.all(this.#sql.ofItem, [database, id, limit], attachmentRowOf)
  }

  async endedBy(position: number, sha256: string): Promise<number | null> {
    return this.#reads.first(this.#sql.endedBy, [sha256, position], positionOf)
  }

  #item(db: string, id: string): { database: number; created: number } | null {
    return this.#reads.first(this.#sql.item, [db, id], ([database, created]) => ({
      database: integer(database, 'db'),
      created: integer(created, 'created'),
    }))
  }
}

const WRITE = {
  item: 'SELECT 1 FROM items WHERE db = ? AND id = ?',
  end: `UPDATE attachments SET ended = ? WHERE ${OF_ITEM} AND name = ?`,
  insert: `INSERT INTO attachments (${ALL_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, NULL)`,
} as const

export class AttachmentRows {
  readonly #sql

  constructor(connection: DatabaseSync) {
    this.#sql = queriesOf(connection, WRITE)
  }

  /** Applies `effect` to the database created at `database`; returns false if it does not apply. */
  apply(database: number, { kind, position, id, attachment }: AttachmentEffect): boolean {
    const { name, content_type, length, sha256 } = attachment
    if (this.#sql.item.get(database, id) === undefined) return false
    const changes = this.#sql.end.run(position, database, id, name)
    if (kind === 'delete_attachment') return changes === 1
    this.#sql.insert.run(position, name, content_type, length, sha256, database, id)
    return true
  }
}

function positionOf(row: Row): number {
  return integerOf(row, 'position')
}
