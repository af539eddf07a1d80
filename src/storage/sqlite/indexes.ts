import type { DatabaseSync } from 'node:sqlite'
import type { IndexOutcome } from '../port/store.ts'
import { REMOVED } from '../search/declared-indexes.ts'
import {
  changeIndex,
  DECLARATIONS,
  type Index,
  type IndexEntry,
  type IndexRows,
  indexEntries,
  isIndexWorkDue,
  setBuilt,
  toIndex,
  withoutDatabases,
  workOnIndexes,
} from '../sql/indexes.ts'
import { SharedStatements } from './reads.ts'
import { toQueries } from './statements.ts'

const SQL = {
  indexes: DECLARATIONS,
  item: 'SELECT created, item FROM items WHERE db = ? AND id = ?',
  addEntry: 'INSERT INTO index_entries (number, key, created, sorts) VALUES (?, ?, ?, ?)',
  removeEntry: 'DELETE FROM index_entries WHERE number = ? AND key = ? AND created = ?',
  entry: 'SELECT sorts FROM index_entries WHERE number = ? AND key = ? AND created = ?',
} as const

/** Reads and writes the rows of indexes. */
export class SqliteIndexRows extends SharedStatements implements IndexRows {
  protected readonly sql

  constructor(connection: DatabaseSync) {
    super(connection)
    this.sql = toQueries(connection, SQL)
  }

  async addEntries(entries: readonly IndexEntry[]): Promise<void> {
    this.write(entries)
  }

  async missingEntry(entries: readonly IndexEntry[]): Promise<number | null> {
    const missing = entries.find(({ number, key, created, sorts }) => {
      return this.sql.entry.get(number, key, created)?.[0] !== (sorts ? 1 : 0)
    })
    return missing?.created ?? null
  }

  protected write(entries: readonly IndexEntry[]): void {
    for (const { number, key, created, sorts } of entries) {
      this.sql.addEntry.run(number, key, created, sorts ? 1 : 0)
    }
  }
}

/** Updates the indexes inside the transaction of each block, and builds new indexes between blocks. */
export class Indexes extends SqliteIndexRows {
  #all: readonly Index[] = []
  /** Indexes by database; only databases that have indexes. */
  #byDatabase: ReadonlyMap<number, readonly Index[]> = new Map()

  constructor(connection: DatabaseSync) {
    super(connection)
    this.reload()
  }

  /** Reads the declarations again, after a change or a rollback. */
  reload(): void {
    this.#set(this.sql.indexes.all().map(toIndex))
  }

  /** Call when an item is created. */
  itemCreated(database: number, position: number, text: string): void {
    const indexes = this.#byDatabase.get(database)
    if (indexes !== undefined) this.write(indexEntries(indexes, position, text))
  }

  /** Call before an item is replaced or deleted. `text` is null for a deletion. */
  itemChanging(database: number, id: string, text: string | null): void {
    const indexes = this.#byDatabase.get(database)
    if (indexes === undefined) return
    const [created, before] = this.sql.item.get(database, id) ?? []
    if (typeof created !== 'number' || typeof before !== 'string') return
    for (const { number, key } of indexEntries(indexes, created, before)) {
      this.sql.removeEntry.run(number, key, created)
    }
    if (text !== null) this.write(indexEntries(indexes, created, text))
  }

  /** Removes the indexes of a deleted database. */
  databaseDeleted(database: number): void {
    const removed = this.#byDatabase.get(database)
    if (removed === undefined) return
    const left = withoutDatabases(this.#all, [database])
    const changed = removed.map((index) => ({ ...index, built: REMOVED }))
    for (const { text, values } of setBuilt(changed, left)) this.all(text, values)
    this.#set(left)
  }

  /** Call inside a transaction. */
  async change(database: number, path: string, change: 'add' | 'remove'): Promise<IndexOutcome> {
    const outcome = await changeIndex(this, { database, path }, change)
    this.reload()
    return outcome
  }

  get isWorkDue(): boolean {
    return isIndexWorkDue(this.#all)
  }

  /** Does a bounded amount of building and purging; call inside a transaction. */
  async work(): Promise<void> {
    await workOnIndexes(this)
    this.reload()
  }

  #set(all: readonly Index[]): void {
    this.#all = all
    const active = all.filter(({ built }) => built !== REMOVED)
    this.#byDatabase = Map.groupBy(active, ({ database }) => database)
  }
}
