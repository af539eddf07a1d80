import type { DatabaseSync } from 'node:sqlite'
import { isDiskFull } from '../../base/errors.ts'
import { HASH_BYTES, hashAt, unpackPosition } from '../../chain/index.ts'
import type { Effect } from '../port/effect.ts'
import { erasedEntryText, erasedItemText } from '../port/erasure.ts'
import { bytesOf, integerOf } from '../sql/rows.ts'
import { queriesOf } from './statements.ts'
import { requireRewriteSpace } from './wal.ts'

const SQL = {
  block: 'SELECT blinds, body FROM blocks WHERE height = ?',
  isCurrentRevision: `SELECT count(*) FROM items
    WHERE db = (SELECT created FROM databases WHERE name = ?) AND id = ? AND revision = ?`,
  isCurrentAttachment: `SELECT count(*) FROM attachments AS row
    JOIN databases ON databases.created = row.db
    JOIN items ON items.db = row.db AND items.id = row.id AND items.created < row.position
    WHERE row.position = ? AND row.ended IS NULL`,
  deleteAttachment: 'DELETE FROM attachments WHERE position = ?',
  eraseDropped: `UPDATE items SET item = ?
    WHERE db IN (SELECT created FROM deleted_databases WHERE name = ?) AND id = ? AND revision = ?`,
  updateBlock: 'UPDATE blocks SET body = ?, blinds = ? WHERE height = ?',
  addErasure: 'INSERT INTO erasures (position, eraser) VALUES (?, ?)',
  addUncompacted: 'INSERT INTO uncompacted (position) VALUES (?)',
  uncompacted: 'SELECT position FROM uncompacted LIMIT 1',
  pages: 'PRAGMA page_count',
  freePages: 'PRAGMA freelist_count',
  truncateWal: 'PRAGMA wal_checkpoint(TRUNCATE)',
} as const

/** Erases the content of entries from their blocks, and from the file. */
export class Erasures {
  readonly #database: DatabaseSync
  readonly #sql
  #isCompactionDue: boolean
  /** Whether the file has been rewritten since the last erasure. */
  #isRewritten = false

  constructor(database: DatabaseSync) {
    this.#database = database
    this.#sql = queriesOf(database, SQL)
    this.#isCompactionDue = this.#sql.uncompacted.get() !== undefined
  }

  /** Whether erased content may still be in free parts of the files. */
  get isCompactionDue(): boolean {
    return this.#isCompactionDue
  }

  /**
   * Applies an `erase_item` entry, inside the transaction of its block. Returns false if a position does not
   * belong to a former revision of the item or of its attachments.
   */
  erase(effect: Extract<Effect, { kind: 'erase_item' }>): boolean {
    const { position: eraser, db, of, positions } = effect
    // Whether these files contained the content. They did not if the entries of a mirrored chain were erased before.
    let isContentErased = false
    const byHeight = Map.groupBy(positions, (position) => unpackPosition(position).height)
    for (const [height, positionsInBlock] of byHeight) {
      const row = this.#sql.block.get(height)
      if (row === undefined) return false
      const blinds = Uint8Array.from(bytesOf(row, 'blinds'))
      const entries = String(row[1]).split('\n')
      for (const position of positionsInBlock) {
        const { index } = unpackPosition(position)
        const erased = erasedEntryText(entries[index] ?? '', db, of)
        isContentErased ||= erased !== entries[index]
        if (erased === null || this.#isCurrent(db, of, position)) return false
        entries[index] = erased
        hashAt(blinds, index).fill(0, 0, HASH_BYTES)
        this.#sql.addErasure.run(position, eraser)
        // Rows of a deleted database are removed later, but the erased content must be removed now.
        this.#sql.eraseDropped.run(erasedItemText(of), db, of, position)
        this.#sql.deleteAttachment.run(position)
      }
      this.#sql.updateBlock.run(entries.join('\n'), blinds, height)
    }
    if (!isContentErased) return true
    this.#sql.addUncompacted.run(eraser)
    this.#isCompactionDue = true
    this.#isRewritten = false
    return true
  }

  /**
   * Rewrites the file and truncates the WAL, so that no free page, no free part of a page and no old frame contains
   * erased content. Returns false if a reader still uses old frames; then call `compact` again. `folder` is the folder
   * of the file. Errors: STORE_FULL, before anything is written; errors of the driver.
   *
   * After a crash at any point, the row in `uncompacted` remains, so the next run compacts again.
   */
  compact(folder: string): boolean {
    if (!this.#isRewritten) this.#rewrite(folder)
    this.#isRewritten = true
    if (this.#sql.truncateWal.get()?.[0] !== 0) return false
    this.#database.exec('DELETE FROM uncompacted')
    this.#isCompactionDue = false
    return true
  }

  #rewrite(folder: string): void {
    const pages = integerOf(this.#sql.pages.get() ?? [], 'pages')
    requireRewriteSpace(folder, pages - integerOf(this.#sql.freePages.get() ?? [], 'pages'))
    // Otherwise, SQLite writes all content to a temporary file in another folder, perhaps on another disk.
    this.#database.exec(`PRAGMA temp_store_directory = '${folder.replaceAll("'", "''")}'`)
    try {
      this.#database.exec('VACUUM')
    } catch (error) {
      // Gives back the space of the frames that were written. After any other failure, nothing may be checkpointed.
      if (isDiskFull(error)) this.#sql.truncateWal.get()
      throw error
    }
  }

  #isCurrent(db: string, id: string, position: number): boolean {
    const counts = [
      this.#sql.isCurrentRevision.get(db, id, position),
      this.#sql.isCurrentAttachment.get(position),
    ]
    return counts.some((row) => row !== undefined && integerOf(row, 'count') > 0)
  }
}
