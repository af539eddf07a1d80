import { statSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { errorMessage } from '../../base/errors.ts'
import { requireStoreFile } from '../location/folder.ts'
import { readError, StoreError, sqliteCode } from '../port/errors.ts'
import type { DiskUsage } from '../port/store.ts'
import { derivedDamage } from '../sql/index-damage.ts'
import { SqlReader } from '../sql/reader.ts'
import { SqliteIndexRows } from './indexes.ts'
import { NO_VIEW, Reads, SQLITE, type View, viewPerIteration } from './reads.ts'
import { readOwner, requireStore } from './schema.ts'
import { Query, StatementCache } from './statements.ts'

/** Size of the page cache of a reading connection, KiB. */
const CACHE_KIB = 8_192
/** Maximum wait for a lock. Readers of a WAL wait for a lock only while the WAL is being set up. */
const BUSY_TIMEOUT_MS = 5_000
/** Codes of SQLite for a lock, a lack of memory, of space, or of open files, none of which tells of damage. */
const SHORTAGES = new Set([5, 6, 7, 13, 14])

/**
 * Reads a store on a connection that may be read-only.
 *
 * Reads of one event-loop iteration share a read transaction, because beginning and ending a transaction costs more
 * than a read. `refresh` ends the transaction early, so that a read after an acknowledged append never sees an older
 * state.
 */
export class SqliteReader extends SqlReader {
  /** `SqliteStore` also writes with this connection. */
  protected readonly connection: DatabaseSync
  readonly #reads: Reads

  constructor(connection: DatabaseSync, view: View) {
    const reads = new Reads(view, new StatementCache(connection))
    super(readOwner(connection), reads, SQLITE)
    this.connection = connection
    this.#reads = reads
  }

  async fileDamage(): Promise<string | null> {
    return this.#reads.run(() => {
      const [first] = new Query(this.connection, 'PRAGMA integrity_check(1)').all()
      if (first?.[0] === 'ok') return null
      return `the file is damaged: ${this.#withName(String(first?.[0]))}`
    })
  }

  async damage(): Promise<string | null> {
    const inFile = await this.fileDamage()
    if (inFile !== null) return inFile
    try {
      return await derivedDamage(new SqliteIndexRows(this.connection))
    } catch (error) {
      throw readError(error)
    }
  }

  /** Replaces the root page in a message of `integrity_check` with the name of its table or index. */
  #withName(text: string): string {
    const query = new Query(this.connection, 'SELECT name FROM sqlite_schema WHERE rootpage = ?')
    return text
      .replace(/^\*\*\* in database main \*\*\*\n/, '')
      .replace(/^Tree (\d+) /, (tree, root) => {
        const name = query.get(Number(root))?.[0]
        return typeof name === 'string' ? `${name}, ` : tree
      })
  }

  async diskUsage(): Promise<DiskUsage> {
    const path = this.connection.location() ?? ''
    const bytes = (file: string) => statSync(file, { throwIfNoEntry: false })?.size ?? 0
    const { bavail, bsize } = await statfs(dirname(path))
    return {
      fileBytes: bytes(path),
      walBytes: bytes(`${path}-wal`),
      freeBytes: bavail * bsize,
    }
  }

  readFailure(): StoreError | null {
    return this.#reads.failure()
  }

  refresh(): void {
    this.#reads.refresh()
  }

  readonly timeline = 0

  requireTimeline(): void {}

  async close(): Promise<void> {
    this.#reads.refresh()
    this.connection.close()
  }
}

/**
 * Opens the store in the file at `path` for reading, even while another process writes it. With `frozen`,
 * every read sees the state at the first read.
 * Errors: STORE_NOT_FOUND, FOLDER_UNUSABLE, STORE_FOREIGN, STORE_FORMAT, STORE_DAMAGED.
 */
export function openSqliteReader(path: string, frozen: boolean): SqliteReader {
  requireStoreFile(path)
  let database: DatabaseSync | null = null
  try {
    database = connectReadOnly(path)
    database.exec(`PRAGMA cache_size = -${CACHE_KIB}`)
    requireStore(database, path)
    if (frozen) database.exec('BEGIN')
    return new SqliteReader(database, frozen ? NO_VIEW : viewPerIteration(database))
  } catch (error) {
    database?.close()
    if (error instanceof StoreError) throw error
    const reason = errorMessage(error)
    const code = SHORTAGES.has(sqliteCode(error) & 0xff) ? 'FOLDER_UNUSABLE' : 'STORE_DAMAGED'
    throw new StoreError(code, `${path} cannot be read: ${reason}`, { cause: error })
  }
}

/**
 * Opens a read-only connection that leaves the folder unchanged.
 *
 * Reading requires a WAL and its index. Both exist while a node runs and after a kill. After a clean shutdown, the
 * connection creates an empty WAL and index and removes them on close, so the connection must be writable. On a
 * read-only disk, the file is opened as immutable.
 */
export function connectReadOnly(path: string): DatabaseSync {
  const hasWal = (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0
  const database = new DatabaseSync(path, { readOnly: hasWal, timeout: BUSY_TIMEOUT_MS })
  try {
    database.exec('PRAGMA query_only = ON')
    database.prepare('SELECT count(*) FROM sqlite_schema').get()
    return database
  } catch (error) {
    database.close()
    if (hasWal) throw error
    const url = pathToFileURL(path)
    url.searchParams.set('immutable', '1')
    return new DatabaseSync(url, { readOnly: true })
  }
}
