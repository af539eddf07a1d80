import { closeSync, existsSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { inheritOwner } from '../../base/files/durable-files.ts'
import { connectReadOnly } from '../sqlite/reader.ts'
import type { Query } from '../sqlite/statements.ts'
import { toQueries } from '../sqlite/statements.ts'
import type { PageStore } from './stored-map.ts'

/** File in a data folder with the state map. It is derived from the chain, so backups exclude it. */
export const STATE_FILE = 'state.db'
const FORMAT = 3
/** Pages of deleted databases that a commit removes. */
const REMOVED_PER_COMMIT = 2_000
/** Maximum wait for another process that opens or closes the file. */
const LOCK_MS_MAX = 5_000
/** With pages of 8 KiB, SQLite stores a page of a map in one piece. */
const PAGE_BYTES = 8_192

const SCHEMA = `
CREATE TABLE pages (map INTEGER, prefix TEXT, page BLOB, PRIMARY KEY (map, prefix)) WITHOUT ROWID;
CREATE TABLE head (size INTEGER, block TEXT, note TEXT);
CREATE TABLE removed (map INTEGER PRIMARY KEY);
INSERT INTO head VALUES (0, NULL, NULL);
PRAGMA user_version = ${FORMAT};`

const SQL = {
  read: 'SELECT page FROM pages WHERE map = ? AND prefix = ?',
  write: 'INSERT OR REPLACE INTO pages VALUES (?, ?, ?)',
  remove: 'DELETE FROM pages WHERE map = ? AND prefix = ?',
  head: 'SELECT size, block, note FROM head',
  setHead: 'UPDATE head SET size = ?, block = ?, note = ?',
  markRemoved: 'INSERT OR IGNORE INTO removed VALUES (?)',
  nextRemoved: 'SELECT map FROM removed LIMIT 1',
  removeSome: `DELETE FROM pages WHERE map = ?1 AND prefix IN
    (SELECT prefix FROM pages WHERE map = ?1 LIMIT ${REMOVED_PER_COMMIT})`,
  forgetRemoved: 'DELETE FROM removed WHERE map = ?',
} as const

/** The blocks whose state a file has. */
export interface StateHead {
  readonly size: number
  /** Id of the last of these blocks; null if there is none. */
  readonly block: string | null
  /** The signed state; null before the first. */
  readonly note: string | null
}

/**
 * The pages of all maps of a state, in a SQLite file of their own for both engines. A commit is one transaction, which
 * a power cut can undo but not tear (`synchronous = NORMAL`): the state is then followed again from the older head.
 */
export class StateFile {
  readonly #database: DatabaseSync
  readonly #queries: Readonly<Record<keyof typeof SQL, Query>>

  private constructor(database: DatabaseSync) {
    this.#database = database
    this.#queries = toQueries(database, SQL)
  }

  /** Opens `path` for writing, or a temporary file if it is null. A file of another format is emptied. */
  static open(path: string | null): StateFile {
    if (path !== null) {
      // Only a missing file, as in `openSqliteStore`.
      if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600))
      inheritOwner(path)
    }
    const database = new DatabaseSync(path ?? '', { timeout: LOCK_MS_MAX })
    database.exec(
      `PRAGMA page_size = ${PAGE_BYTES}; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL`,
    )
    if (database.prepare('PRAGMA user_version').get()?.user_version !== FORMAT) {
      dropTables(database)
      database.exec(`BEGIN; ${SCHEMA} COMMIT`)
    }
    return new StateFile(database)
  }

  /** Opens an existing file for reading; returns null if there is none, or if it has no state yet. */
  static openReader(path: string): StateFile | null {
    if (!existsSync(path)) return null
    const database = connectReadOnly(path)
    if (database.prepare('PRAGMA user_version').get()?.user_version === FORMAT) {
      return new StateFile(database)
    }
    database.close()
    return null
  }

  /** Like `openReader`, but all reads until `close` see one state. */
  static openSnapshot(path: string): StateFile | null {
    const file = StateFile.openReader(path)
    if (file !== null) file.#database.exec('BEGIN')
    return file
  }

  head(): StateHead {
    const [size, block, note] = this.#queries.head.get() ?? []
    return {
      size: Number(size ?? 0),
      block: typeof block === 'string' ? block : null,
      note: typeof note === 'string' ? note : null,
    }
  }

  pages(map: number): PageStore {
    const { read, write, remove } = this.#queries
    return {
      read(prefix) {
        const [page] = read.get(map, prefix) ?? []
        return page instanceof Uint8Array ? page : null
      },
      write: (prefix, page) => void write.run(map, prefix, page),
      remove: (prefix) => void remove.run(map, prefix),
    }
  }

  /** Runs `work` in one transaction. Its reads see one state. */
  transaction<Result>(work: () => Result): Result {
    this.#database.exec('BEGIN')
    try {
      const result = work()
      this.#database.exec('COMMIT')
      return result
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK')
      throw error
    }
  }

  setHead({ size, block, note }: StateHead): void {
    this.#queries.setHead.run(size, block, note)
  }

  /** Lets later calls of `removeSome` remove the pages of a map. */
  markRemoved(map: number): void {
    this.#queries.markRemoved.run(map)
  }

  /** Removes some pages of a removed map. */
  removeSome(): void {
    const [map] = this.#queries.nextRemoved.get() ?? []
    if (typeof map !== 'number') return
    if (this.#queries.removeSome.run(map) === 0) this.#queries.forgetRemoved.run(map)
  }

  /** Removes the whole state, so that it is computed from the first block again. */
  clear(): void {
    this.transaction(() => {
      this.#database.exec('DELETE FROM pages; DELETE FROM removed')
      this.setHead({ size: 0, block: null, note: null })
    })
  }

  close(): void {
    this.#database.close()
  }
}

function dropTables(database: DatabaseSync): void {
  for (const name of ['pages', 'head', 'removed']) database.exec(`DROP TABLE IF EXISTS ${name}`)
}
