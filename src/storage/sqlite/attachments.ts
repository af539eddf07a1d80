import type { DatabaseSync } from 'node:sqlite'
import type { AttachmentEffect } from '../port/effect.ts'
import { toQueries } from './statements.ts'

const SQL = {
  item: 'SELECT 1 FROM items WHERE db = ? AND id = ?',
  end: `UPDATE attachments SET ended = ? WHERE db = ? AND id = ? AND ended IS NULL AND name = ?`,
  insert: `INSERT INTO attachments
    (position, name, content_type, length, sha256, db, id, ended) VALUES (?, ?, ?, ?, ?, ?, ?, NULL)`,
} as const

/** Writes the table `attachments`. */
export class AttachmentRows {
  readonly #sql

  constructor(connection: DatabaseSync) {
    this.#sql = toQueries(connection, SQL)
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
