import type { DatabaseSync } from 'node:sqlite'
import { LIMIT, toQueries } from './statements.ts'

const SQL = {
  addCurrent: `INSERT INTO superseded (db, id, position)
    SELECT db, id, revision FROM items WHERE db = ? AND id = ?`,
  addDeletion: 'INSERT INTO superseded (db, id, position) VALUES (?, ?, ?)',
  addDeleted: `INSERT INTO deleted_items (db, id, deleted, created)
    SELECT db, id, ?, created FROM items WHERE db = ? AND id = ?`,
  addOldest: `INSERT INTO superseded (db, id, position)
    SELECT db, id, revision FROM items WHERE db = ? ORDER BY created ${LIMIT}`,
  addOldestDeleted: `INSERT INTO deleted_items (db, id, deleted, created)
    SELECT i.db, i.id, d.deleted, i.created FROM items AS i CROSS JOIN deleted_databases AS d
    WHERE i.db = ? AND d.created = i.db ORDER BY i.created ${LIMIT}`,
} as const

/** Writes the histories of items (tables `superseded` and `deleted_items`). */
export class HistoryRows {
  readonly #sql

  constructor(database: DatabaseSync) {
    this.#sql = toQueries(database, SQL)
  }

  /** Adds the current revision of an item before it is replaced. Call in the transaction of the block. */
  addCurrent(database: number, id: string): void {
    this.#sql.addCurrent.run(database, id)
  }

  /** Adds the current revision of an item and its deletion at `position`. Call in the transaction of the block. */
  addDeletion(database: number, id: string, position: number): void {
    this.#sql.addCurrent.run(database, id)
    this.#sql.addDeletion.run(database, id, position)
    this.#sql.addDeleted.run(position, database, id)
  }

  /** Adds the current revisions of the `rows` oldest items of a deleted database, which are then removed. */
  addOldest(database: number, rows: number): void {
    this.#sql.addOldest.run(database, rows)
    this.#sql.addOldestDeleted.run(database, rows)
  }
}
