import type { DatabaseSync } from 'node:sqlite'
import { isDiskFull } from '../../base/errors.ts'
import { readInteger } from '../sql/rows.ts'
import { toQueries } from './statements.ts'
import { requireRewriteSpace } from './wal.ts'

const SQL = {
  uncompacted: 'SELECT position FROM uncompacted LIMIT 1',
  pages: 'PRAGMA page_count',
  freePages: 'PRAGMA freelist_count',
  truncateWal: 'PRAGMA wal_checkpoint(TRUNCATE)',
} as const

/** Removes erased content from the free parts of the file and of the WAL, by rewriting the file. */
export class FileRewriting {
  readonly #database: DatabaseSync
  readonly #sql
  #isDue: boolean
  /** Whether the file has been rewritten since the last erasure. */
  #isRewritten = false

  constructor(database: DatabaseSync) {
    this.#database = database
    this.#sql = toQueries(database, SQL)
    this.#isDue = this.#sql.uncompacted.get() !== undefined
  }

  /** Whether erased content may still be in free parts of the files. */
  get isDue(): boolean {
    return this.#isDue
  }

  /** Call after an erasure of content. */
  contentErased(): void {
    this.#isDue = true
    this.#isRewritten = false
  }

  /**
   * Rewrites the file and truncates the WAL, so that no free page, no free part of a page and no old frame contains
   * erased content. Returns false if a reader still uses old frames; then call `run` again. `folder` is the folder
   * of the file. Errors: STORE_FULL, before anything is written; errors of the driver.
   *
   * After a crash at any point, the row in `uncompacted` remains, so the next start rewrites the file again.
   */
  run(folder: string): boolean {
    if (!this.#isRewritten) this.#rewrite(folder)
    this.#isRewritten = true
    if (this.#sql.truncateWal.get()?.[0] !== 0) return false
    this.#database.exec('DELETE FROM uncompacted')
    this.#isDue = false
    return true
  }

  #rewrite(folder: string): void {
    const pages = readInteger(this.#sql.pages.get() ?? [], 'pages')
    requireRewriteSpace(folder, pages - readInteger(this.#sql.freePages.get() ?? [], 'pages'))
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
}
