import type { DatabaseSync } from 'node:sqlite'
import { unpackPosition } from '../../chain/index.ts'
import { PAGE_CHARACTERS, type RevisionRange, type StoredRevision } from '../port/store.ts'
import { type LoadedBlock, revisionMissing, revisionOf } from '../sql/revisions.ts'
import { bodyOf, bytesOf, integerOf } from '../sql/rows.ts'
import { LIMIT, queriesOf } from './statements.ts'

/**
 * Returns the SQL of the positions of an item's revisions. The current revision is newer than all others, or absent.
 */
function positions(operator: '<' | '>', direction: 'ASC' | 'DESC'): string {
  return `SELECT position FROM superseded WHERE db = ?1 AND id = ?2 AND position ${operator} ?3
    UNION ALL SELECT revision FROM items WHERE db = ?1 AND id = ?2 AND revision ${operator} ?3
    ORDER BY 1 ${direction} LIMIT ?4 + 0`
}

const SQL = {
  addCurrent: `INSERT INTO superseded (db, id, position)
    SELECT db, id, revision FROM items WHERE db = ? AND id = ?`,
  addDeletion: 'INSERT INTO superseded (db, id, position) VALUES (?, ?, ?)',
  addOldest: `INSERT INTO superseded (db, id, position)
    SELECT db, id, revision FROM items WHERE db = ? ORDER BY created ${LIMIT}`,
  oldestFirst: positions('>', 'ASC'),
  newestFirst: positions('<', 'DESC'),
  block: 'SELECT body, timestamps, blinds FROM blocks WHERE height = ?',
} as const

/** The histories of items (table `superseded`). */
export class History {
  readonly #sql

  constructor(database: DatabaseSync) {
    this.#sql = queriesOf(database, SQL)
  }

  /** Adds the current revision of an item before it is replaced. Call in the transaction of the block. */
  addCurrent(database: number, id: string): void {
    this.#sql.addCurrent.run(database, id)
  }

  /** Adds the current revision of an item and its deletion at `position`. Call in the transaction of the block. */
  addDeletion(database: number, id: string, position: number): void {
    this.#sql.addCurrent.run(database, id)
    this.#sql.addDeletion.run(database, id, position)
  }

  /** Adds the current revisions of the `rows` oldest items of a deleted database, which are then removed. */
  addOldest(database: number, rows: number): void {
    this.#sql.addOldest.run(database, rows)
  }

  /** See `StoreReader.revisions`. */
  page(database: number, id: string, range: RevisionRange): StoredRevision[] {
    const { newestFirst, limit } = range
    const after = range.after ?? (newestFirst ? Number.MAX_SAFE_INTEGER : -1)
    const query = newestFirst ? this.#sql.newestFirst : this.#sql.oldestFirst
    const revisions: StoredRevision[] = []
    let block: LoadedBlock = { height: -1, entries: [], timestamps: [], blinds: new Uint8Array() }
    let characters = 0
    for (const row of query.iterate(database, id, after, limit)) {
      const position = integerOf(row, 'position')
      const { height, index } = unpackPosition(position)
      if (block.height !== height) {
        const found = this.#sql.block.get(height)
        if (found === undefined) throw revisionMissing(id, position)
        block = { height, ...bodyOf(found), blinds: bytesOf(found.slice(2), 'blinds') }
        for (const { length } of block.entries) characters += length
      }
      revisions.push(revisionOf(id, position, block, index))
      if (characters >= PAGE_CHARACTERS) break
    }
    return revisions
  }
}
