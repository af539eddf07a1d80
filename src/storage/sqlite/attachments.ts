import type { DatabaseSync } from 'node:sqlite'
import type {
  AttachmentRange,
  AttachmentReader,
  PlacedAttachment,
  PlacedName,
  StoredAttachment,
  StoredBlob,
} from '../attachments.ts'
import type { AttachmentEffect } from '../effect.ts'
import type { Reads } from './reads.ts'
import { integer, type Row, text } from './rows.ts'
import { LIMIT, Query } from './statements.ts'

/**
 * One row per `create_attachment` entry. `db` is the position that created the database. `ended` is
 * the next entry about the same name of the same id, so at most one row of a name has none; it is
 * current while an item of this id, created before it, is there. Deleting an item or a database
 * therefore touches nothing here. A chain of format 1 has no such entries, so nothing fills it.
 */
export const ATTACHMENT_TABLES = `
  CREATE TABLE attachments (
    position INTEGER PRIMARY KEY,
    db INTEGER NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    content_type TEXT NOT NULL,
    length INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    ended INTEGER
  ) STRICT;
  CREATE UNIQUE INDEX attachments_by_name ON attachments (db, id, name) WHERE ended IS NULL;
  CREATE INDEX attachments_in_order ON attachments (db, id, name, position);
  CREATE INDEX attachments_by_content ON attachments (sha256, length);
`

const COLUMNS = 'position, name, content_type, length, sha256'
const PLACED = `${COLUMNS}, db, id, ended`
/** The item is there, and was made before its attachment. */
const OF_ITEM = `db = ? AND id = ? AND ended IS NULL`

const SELECT = {
  item: `SELECT db, created FROM items
    WHERE db = (SELECT created FROM databases WHERE name = ?) AND id = ?`,
  current: `SELECT ${COLUMNS} FROM attachments WHERE ${OF_ITEM} AND name = ? AND position > ?`,
  list: `SELECT ${COLUMNS} FROM attachments
    WHERE ${OF_ITEM} AND name > ? AND position > ? ORDER BY name ${LIMIT} OFFSET ?`,
  byPosition: `SELECT ${PLACED} FROM attachments WHERE position > ? ORDER BY position ${LIMIT}`,
  before: `SELECT ${PLACED} FROM attachments
    WHERE db = ? AND id = ? AND name = ? AND position < ? ORDER BY position DESC LIMIT 1`,
  contents: `SELECT DISTINCT sha256, length FROM attachments
    WHERE sha256 > ? ORDER BY sha256, length ${LIMIT}`,
  countBlobs: `SELECT count(*), coalesce(sum(length), 0)
    FROM (SELECT DISTINCT sha256, length FROM attachments)`,
  namedAt: 'SELECT position FROM attachments WHERE sha256 = ? ORDER BY position LIMIT 1',
  at: `SELECT ${PLACED} FROM attachments WHERE position = ?`,
  ofItem: `SELECT ${PLACED} FROM attachments WHERE db = ? AND id = ? ${LIMIT}`,
  endedBy: 'SELECT position FROM attachments WHERE sha256 = ? AND ended = ?',
} as const

/** The reading half, on the connection and in the view of its store. */
export class SqliteAttachments implements AttachmentReader {
  readonly #connection: DatabaseSync
  readonly #reads: Reads
  readonly #queries = new Map<keyof typeof SELECT, Query>()

  constructor(connection: DatabaseSync, reads: Reads) {
    this.#connection = connection
    this.#reads = reads
  }

  async current(db: string, id: string, name: string): Promise<StoredAttachment | null> {
    return this.#reads.run(() => {
      const item = this.#item(db, id)
      if (item === null) return null
      const row = this.#query('current').get(item.database, id, name, item.created)
      return row === undefined ? null : attachmentOfRow(row)
    })
  }

  async list(db: string, id: string, range: AttachmentRange): Promise<StoredAttachment[]> {
    return this.#reads.run(() => {
      const item = this.#item(db, id)
      if (item === null) return []
      const { after = '', limit, offset = 0 } = range
      return this.#query('list')
        .all(item.database, id, after, item.created, limit, offset)
        .map(attachmentOfRow)
    })
  }

  async byPosition(after: number, limit: number): Promise<PlacedAttachment[]> {
    return this.#reads.run(() => {
      return this.#query('byPosition').all(after, limit).map(placedAttachmentOf)
    })
  }

  async before(place: PlacedName, position: number): Promise<PlacedAttachment | null> {
    return this.#reads.run(() => {
      const { database, id, name } = place
      const row = this.#query('before').get(database, id, name, position)
      return row === undefined ? null : placedAttachmentOf(row)
    })
  }

  async blobs(after: string, limit: number): Promise<StoredBlob[]> {
    return this.#reads.run(() => {
      const rows = this.#query('contents').all(after, limit)
      return rows.map(([sha256, length]) => ({
        sha256: text(sha256, 'sha256'),
        length: integer(length, 'length'),
      }))
    })
  }

  async countBlobs(): Promise<{ blobs: number; bytes: number }> {
    return this.#reads.run(() => {
      const [blobs, bytes] = this.#query('countBlobs').get() ?? []
      return { blobs: integer(blobs, 'blobs'), bytes: integer(bytes, 'bytes') }
    })
  }

  async namedAt(sha256: string): Promise<number | null> {
    return this.#reads.run(() => {
      const row = this.#query('namedAt').get(sha256)
      return row === undefined ? null : integer(row[0], 'position')
    })
  }

  async at(position: number): Promise<PlacedAttachment | null> {
    return this.#reads.run(() => {
      const row = this.#query('at').get(position)
      return row === undefined ? null : placedAttachmentOf(row)
    })
  }

  async ofItem(database: number, id: string, limit: number): Promise<PlacedAttachment[]> {
    return this.#reads.run(() => {
      return this.#query('ofItem').all(database, id, limit).map(placedAttachmentOf)
    })
  }

  async endedBy(position: number, sha256: string): Promise<number | null> {
    return this.#reads.run(() => {
      const row = this.#query('endedBy').get(sha256, position)
      return row === undefined ? null : integer(row[0], 'position')
    })
  }

  #item(db: string, id: string): { database: number; created: number } | null {
    const row = this.#query('item').get(db, id)
    if (row === undefined) return null
    return { database: integer(row[0], 'db'), created: integer(row[1], 'created') }
  }

  /** Prepared when first needed: most stores have no attachments. */
  #query(name: keyof typeof SELECT): Query {
    let query = this.#queries.get(name)
    if (query === undefined) {
      query = new Query(this.#connection, SELECT[name])
      this.#queries.set(name, query)
    }
    return query
  }
}

/** Makes what applies effects on attachments in the database created at `database`; says whether they fit. */
export function attachmentApplier(
  connection: DatabaseSync,
): (database: number, effect: AttachmentEffect) => boolean {
  const item = new Query(connection, 'SELECT 1 FROM items WHERE db = ? AND id = ?')
  const end = new Query(
    connection,
    `UPDATE attachments SET ended = ? WHERE ${OF_ITEM} AND name = ?`,
  )
  const insert = new Query(
    connection,
    `INSERT INTO attachments (${PLACED}) VALUES (?, ?, ?, ?, ?, ?, ?, NULL)`,
  )
  return (database, { kind, position, id, attachment }) => {
    const { name, content_type, length, sha256 } = attachment
    if (item.get(database, id) === undefined) return false
    const changes = end.run(position, database, id, name)
    if (kind === 'delete_attachment') return changes === 1
    insert.run(position, name, content_type, length, sha256, database, id)
    return true
  }
}

/**
 * Makes what forgets the row of the entry at `position`, for an entry that is erased: its content is
 * no longer named by it. Part of the erasure's transaction; the file goes after that.
 */
export function attachmentEraser(connection: DatabaseSync): (position: number) => void {
  const erase = new Query(connection, 'DELETE FROM attachments WHERE position = ?')
  return (position) => void erase.run(position)
}

function attachmentOfRow([position, name, contentType, length, sha256]: Row): StoredAttachment {
  return {
    position: integer(position, 'position'),
    name: text(name, 'name'),
    content_type: text(contentType, 'content_type'),
    length: integer(length, 'length'),
    sha256: text(sha256, 'sha256'),
  }
}

function placedAttachmentOf(row: Row): PlacedAttachment {
  const ended = row[7]
  return {
    ...attachmentOfRow(row),
    database: integer(row[5], 'db'),
    id: text(row[6], 'id'),
    ended: ended === null ? null : integer(ended, 'ended'),
  }
}
