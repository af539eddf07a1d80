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

const COLUMNS = 'a.position, a.name, a.content_type, a.length, a.sha256'
const ALL_COLUMNS = `${COLUMNS}, a.db, a.id, a.ended`
/** SQL of the current attachments of item $2 of database $1. Gives no rows if the item does not exist. */
const OF_ITEM = `FROM databases AS d
  JOIN items AS i ON i.db = d.created AND i.id = $2
  JOIN attachments AS a ON a.db = d.created AND a.id = i.id
    AND a.ended IS NULL AND a.position > i.created
  WHERE d.name = $1`

const SQL = {
  current: `SELECT ${COLUMNS} ${OF_ITEM} AND a.name = $3`,
  list: `SELECT ${COLUMNS} ${OF_ITEM} AND a.name > $3 ORDER BY a.name LIMIT $4 OFFSET $5`,
  byPosition: `SELECT ${ALL_COLUMNS} FROM attachments AS a
    WHERE a.position > $1 ORDER BY a.position LIMIT $2`,
  before: `SELECT ${ALL_COLUMNS} FROM attachments AS a
    WHERE a.db = $1 AND a.id = $2 AND a.name = $3 AND a.position < $4
    ORDER BY a.position DESC LIMIT 1`,
  blobs: `SELECT DISTINCT sha256, length FROM attachments
    WHERE sha256 > $1 ORDER BY sha256, length LIMIT $2`,
  countBlobs: `SELECT count(*), coalesce(sum(length), 0)::int8
    FROM (SELECT DISTINCT sha256, length FROM attachments) AS blobs`,
  namedAt: `SELECT position FROM attachments
    WHERE sha256 = $1 ORDER BY position LIMIT 1`,
  at: `SELECT ${ALL_COLUMNS} FROM attachments AS a WHERE a.position = $1`,
  ofItem: `SELECT ${ALL_COLUMNS} FROM attachments AS a
    WHERE a.db = $1 AND a.id = $2 LIMIT $3`,
  endedBy: 'SELECT position FROM attachments WHERE sha256 = $1 AND ended = $2',
} as const

const positionOf = (row: Row): number => integerOf(row, 'position')

export class PostgresAttachments implements AttachmentReader {
  readonly #reads: Reads

  constructor(reads: Reads) {
    this.#reads = reads
  }

  async current(db: string, id: string, name: string): Promise<StoredAttachment | null> {
    return this.#reads.first(SQL.current, [db, id, name], attachmentOf)
  }

  async list(db: string, id: string, range: AttachmentRange): Promise<StoredAttachment[]> {
    const { after = '', limit, offset = 0 } = range
    return this.#reads.all(SQL.list, [db, id, after, limit, offset], attachmentOf)
  }

  async byPosition(after: number, limit: number): Promise<AttachmentRow[]> {
    return this.#reads.all(SQL.byPosition, [after, limit], attachmentRowOf)
  }

  async before(key: AttachmentKey, position: number): Promise<AttachmentRow | null> {
    const values = [key.database, key.id, key.name, position]
    return this.#reads.first(SQL.before, values, attachmentRowOf)
  }

  async blobs(after: string, limit: number): Promise<StoredBlob[]> {
    return this.#reads.all(SQL.blobs, [after, limit], ([sha256, length]) => ({
      sha256: text(sha256, 'sha256'),
      length: integer(length, 'length'),
    }))
  }

  async countBlobs(): Promise<{ blobs: number; bytes: number }> {
    const counts = await this.#reads.first(SQL.countBlobs, [], ([blobs, bytes]) => ({
      blobs: integer(blobs, 'blobs'),
      bytes: integer(bytes, 'bytes'),
    }))
    return counts ?? { blobs: 0, bytes: 0 }
  }

  async namedAt(sha256: string): Promise<number | null> {
    return this.#reads.first(SQL.namedAt, [sha256], positionOf)
  }

  async at(position: number): Promise<AttachmentRow | null> {
    return this.#reads.first(SQL.at, [position], attachmentRowOf)
  }

  async ofItem(database: number, id: string, limit: number): Promise<AttachmentRow[]> {
    return this.#reads.all(SQL.ofItem, [database, id, limit], attachmentRowOf)
  }

  async endedBy(position: number, sha256: string): Promise<number | null> {
    return this.#reads.first(SQL.endedBy, [sha256, position], positionOf)
  }
}
