import type { DatabaseSync } from 'node:sqlite'
import type { IndexOutcome } from '../port/store.ts'
import { READY, REMOVED } from '../search/declared-indexes.ts'
import {
  advanceIndexes,
  changeIndex,
  complete,
  DECLARATIONS,
  type Index,
  type IndexEntry,
  type IndexRows,
  indexEntries,
  isIndexWorkDue,
  readEntries,
  setBuilt,
  toIndex,
  withoutDatabases,
} from '../sql/indexes.ts'
import { IndexBuild } from './index-build.ts'
import { SharedStatements } from './reads.ts'
import { toQueries } from './statements.ts'

/** Maximum items whose entries a step of a build collects, and maximum entries that a step writes. */
const COLLECTED_ITEMS = 2_000
const WRITTEN_ENTRIES = 1_500

const SQL = {
  indexes: DECLARATIONS,
  item: 'SELECT created, item FROM items WHERE db = ? AND id = ?',
  addEntry: 'INSERT INTO index_entries (number, key, created, sorts) VALUES (?, ?, ?, ?)',
  // An interrupted build may have added the entry.
  addBuilt: `INSERT OR IGNORE INTO index_entries (number, key, created, sorts) VALUES (?, ?, ?, ?)`,
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

/**
 * Updates the indexes inside the transaction of each block, and builds new indexes between blocks, in the order of their
 * keys.
 *
 * While an index is being built, it may have entries of items after `built`, also after a crash, which loses the entries
 * that are collected in memory. Each of these entries is an entry of the current item, because a change of the item
 * removes the entries of the former item.
 */
export class Indexes extends SqliteIndexRows {
  #all: readonly Index[] = []
  /** Indexes by database; only databases that have indexes. */
  #byDatabase: ReadonlyMap<number, readonly Index[]> = new Map()
  #build: IndexBuild | null = null

  constructor(connection: DatabaseSync) {
    super(connection)
    this.reload()
  }

  /** Reads the declarations again, after a change. */
  reload(): void {
    this.#set(this.sql.indexes.all().map(toIndex))
  }

  /** Call after a rollback. The build starts again, because changes that it has noted were not made. */
  reset(): void {
    this.#build = null
    this.reload()
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
    for (const { number, key } of indexEntries(indexes.map(complete), created, before)) {
      this.sql.removeEntry.run(number, key, created)
    }
    if (created <= (this.#build?.collected ?? -1)) this.#build?.changed.add(created)
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
    await advanceIndexes(this, (index) => this.#buildStep(index))
    this.reload()
  }

  async #buildStep(index: Index): Promise<Index> {
    if (this.#build?.number !== index.number) this.#build = new IndexBuild(index)
    const build = this.#build
    if (!build.isFull) {
      const reached = { ...index, built: build.collected }
      const { entries, built } = await readEntries(this, reached, COLLECTED_ITEMS)
      build.add(entries, built)
    } else {
      for (const { number, key, created, sorts } of build.take(WRITTEN_ENTRIES)) {
        this.sql.addBuilt.run(number, key, created, sorts ? 1 : 0)
      }
    }
    if (!build.isFull || !build.isEmpty) return index
    this.#build = null
    return { ...index, built: build.collected }
  }

  #set(all: readonly Index[]): void {
    this.#all = all
    const isBuilt = ({ number, built }: Index) =>
      number === this.#build?.number && built !== READY && built !== REMOVED
    if (!all.some(isBuilt)) this.#build = null
    const { collected } = this.#build ?? { collected: -1 }
    const active = all
      .filter(({ built }) => built !== REMOVED)
      .map((index) => (isBuilt(index) ? { ...index, built: collected } : index))
    this.#byDatabase = Map.groupBy(active, ({ database }) => database)
  }
}
