import { DatabaseSync } from 'node:sqlite'
import { inheritOwner } from './durable-files.ts'

/** Result code of SQLite: another connection has the lock. */
const SQLITE_BUSY = 5

/**
 * Locks the file at `path`, which is created if it is missing and never removed. Returns the function that releases the
 * lock, or null if another process or another caller in this process still has the lock after `waitMs`.
 *
 * The lock is an exclusive transaction of SQLite, so it ends with the process, even after a kill. Errors: those of the
 * system and of SQLite, whose messages do not contain the path.
 */
export function tryLock(path: string, waitMs = 0): (() => void) | null {
  const database = new DatabaseSync(path, { timeout: waitMs })
  try {
    inheritOwner(path)
    // The transaction of an empty file begins with a journal, for which a full disk has no space.
    database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
    return () => database.close()
  } catch (error) {
    database.close()
    if (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY) return null
    throw error
  }
}
