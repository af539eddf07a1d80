import { createHash } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import { type JsonObject, parseJson } from '../../base/json.ts'
import type { Path } from '../../filter/index.ts'
import { keysOf } from '../search/index-keys.ts'
import { INDEXES_PER_DATABASE, type IndexOutcome } from '../store.ts'
import { LIMIT, Query } from './statements.ts'

/**
 * Declared indexes. They follow from the items alone, so no chain fills them.
 *
 * - `indexes`: `path` of the items of `db`; every item created up to `built` is in it. `mark` is a hash of
 *   the declaration, which follows from nothing else that is stored.
 * - `index_entries`: the values of each item (`index-keys.ts`), in the order of their keys.
 * - `dropped_indexes`: those whose entries still take room; removed piece by piece.
 */
export const INDEX_TABLES = {
  tables: `
  CREATE TABLE indexes (
    number INTEGER PRIMARY KEY,
    db INTEGER NOT NULL,
    path TEXT NOT NULL,
    built INTEGER NOT NULL,
    mark TEXT NOT NULL,
    UNIQUE (db, path)
  ) STRICT;
  CREATE TABLE index_entries (
    number INTEGER NOT NULL,
    key BLOB NOT NULL,
    created INTEGER NOT NULL,
    sorts INTEGER NOT NULL,
    PRIMARY KEY (number, key, created)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX index_elements ON index_entries (number, key, created) WHERE sorts = 0;
  CREATE TABLE dropped_indexes (number INTEGER PRIMARY KEY) STRICT;
`,
}

/** `built` of an index that has all items, those to come too. */
export const READY = Number.MAX_SAFE_INTEGER
/** Items entered, and entries removed, by one piece of work. */
const BUILD_ITEMS = 500
const PURGE_ENTRIES = 2_000
/** A piece ends when it has gone through this much text. */
const BUILD_CHARACTERS = 1_048_576

interface Index {
  readonly number: number
  readonly path: Path
  readonly database: number
  built: number
}

/**
 * The writing half of the indexes: keeps them in step with the items, inside the transaction of each
 * block, and builds new ones between blocks.
 *
 * An item belongs to an index when it was created up to `built`. Building moves `built` on, together
 * with the entries of the items passed, in one transaction; so a crash leaves an index that is right up
 * to where it says, and the next run goes on from there.
 */
export class Indexes {
  readonly #statements: ReturnType<typeof prepare>
  /** By database; databases without an index are not in it and cost one look. */
  readonly #indexes = new Map<number, Index[]>()
  #purging = true

  constructor(connection: DatabaseSync) {
    this.#statements = prepare(connection)
    this.reload()
  }

  /** Reads the declarations anew, after a transaction was taken back. */
  reload(): void {
    this.#indexes.clear()
    for (const [number, database, path, built] of this.#statements.indexes.all()) {
      const list = this.#indexes.get(Number(database)) ?? []
      list.push({
        number: Number(number),
        path: String(path).split('.'),
        database: Number(database),
        built: Number(built),
      })
      this.#indexes.set(Number(database), list)
    }
  }

  /** An item of `database` was created. */
  created(database: number, position: number, text: string): void {
    const indexes = this.#indexes.get(database)
    if (indexes !== undefined) this.#enter(indexes, position, parsed(text))
  }

  /** The item `id` of `database` is about to get the content `text`, or to go when that is null. */
  changing(database: number, id: string, text: string | null): void {
    const indexes = this.#indexes.get(database)
    if (indexes === undefined) return
    const [created, before] = this.#statements.item.get(database, id) ?? []
    if (typeof created !== 'number' || typeof before !== 'string') return
    const old = parsed(before)
    for (const { number, path, built } of indexes) {
      if (created > built) continue
      for (const { key } of keysOf(old, path)) this.#statements.leave.run(number, key, created)
    }
    if (text !== null) this.#enter(indexes, created, parsed(text))
  }

  /** `database` is deleted, and so its indexes are. */
  databaseDeleted(database: number): void {
    for (const { number } of this.#indexes.get(database) ?? []) this.#drop(number)
    this.#indexes.delete(database)
  }

  /** Declares an index on the items of `database`; call inside a transaction. */
  add(database: number, path: string): IndexOutcome {
    const indexes = this.#indexes.get(database) ?? []
    if (indexes.some((index) => index.path.join('.') === path)) return 'exists'
    if (indexes.length >= INDEXES_PER_DATABASE) return 'too-many'
    const number = Number(this.#statements.free.get()?.[0])
    this.#statements.declare.run(number, database, path, -1, markOf(number, database, path))
    this.reload()
    return 'done'
  }

  /** Takes the declaration back; call inside a transaction. */
  remove(database: number, path: string): IndexOutcome {
    const index = this.#indexes.get(database)?.find((each) => each.path.join('.') === path)
    if (index === undefined) return 'missing'
    this.#drop(index.number)
    this.reload()
    return 'done'
  }

  /** Whether `work` has something to do. */
  get isWaiting(): boolean {
    return this.#purging || this.#unfinished() !== undefined
  }

  /** One bounded piece of building or clearing away; call inside a transaction. */
  work(): void {
    if (this.#purging) this.#purge()
    const index = this.#unfinished()
    if (index !== undefined) this.#build(index)
  }

  #unfinished(): Index | undefined {
    for (const list of this.#indexes.values()) {
      const unfinished = list.find(({ built }) => built !== READY)
      if (unfinished !== undefined) return unfinished
    }
    return undefined
  }

  #build(index: Index): void {
    let characters = 0
    let last = READY
    let items = 0
    const rows = this.#statements.items.all(index.database, index.built, BUILD_ITEMS)
    for (const [created] of rows) {
      const position = Number(created)
      const text = String(this.#statements.text.get(position)?.[0])
      for (const { key, sorts } of keysOf(parsed(text), index.path)) {
        this.#statements.enter.run(index.number, key, position, sorts ? 1 : 0)
      }
      last = position
      items += 1
      characters += text.length
      if (characters >= BUILD_CHARACTERS) break
    }
    index.built = items === rows.length && rows.length < BUILD_ITEMS ? READY : last
    this.#statements.built.run(index.built, index.number)
  }

  #enter(indexes: readonly Index[], created: number, item: JsonObject): void {
    for (const { number, path, built } of indexes) {
      if (created > built) continue
      for (const { key, sorts } of keysOf(item, path)) {
        this.#statements.enter.run(number, key, created, sorts ? 1 : 0)
      }
    }
  }

  #drop(number: number): void {
    this.#statements.undeclare.run(number)
    this.#statements.drop.run(number, number)
    this.#purging = true
  }

  #purge(): void {
    const [number] = this.#statements.dropped.get() ?? []
    this.#purging = typeof number === 'number'
    if (typeof number !== 'number') return
    const changes = this.#statements.purge.run(number, number, PURGE_ENTRIES)
    // The note goes with the last entries.
    if (changes < PURGE_ENTRIES) this.#statements.purged.run(number)
  }
}

/** What `mark` of a declaration must be. */
export function markOf(number: number, database: number, path: string): string {
  return createHash('sha256').update(`${number} ${database} ${path}`).digest('hex').slice(0, 16)
}

function parsed(text: string): JsonObject {
  return parseJson(text)
}

function prepare(database: DatabaseSync) {
  return {
    indexes: new Query(database, 'SELECT number, db, path, built FROM indexes ORDER BY number'),
    item: new Query(database, 'SELECT created, item FROM items WHERE db = ? AND id = ?'),
    items: new Query(
      database,
      `SELECT created FROM items WHERE db = ? AND created > ? ORDER BY created ${LIMIT}`,
    ),
    text: new Query(database, 'SELECT item FROM items WHERE created = ?'),
    // A number is free again when the last entry of its old index is gone.
    free: new Query(
      database,
      `SELECT 1 + max(coalesce((SELECT max(number) FROM indexes), 0),
        coalesce((SELECT max(number) FROM dropped_indexes), 0))`,
    ),
    declare: new Query(
      database,
      'INSERT INTO indexes (number, db, path, built, mark) VALUES (?, ?, ?, ?, ?)',
    ),
    undeclare: new Query(database, 'DELETE FROM indexes WHERE number = ?'),
    built: new Query(database, 'UPDATE indexes SET built = ? WHERE number = ?'),
    enter: new Query(
      database,
      'INSERT INTO index_entries (number, key, created, sorts) VALUES (?, ?, ?, ?)',
    ),
    leave: new Query(
      database,
      'DELETE FROM index_entries WHERE number = ? AND key = ? AND created = ?',
    ),
    // Without entries there is nothing to clear away, and no note.
    drop: new Query(
      database,
      `INSERT INTO dropped_indexes (number)
        SELECT ? WHERE EXISTS (SELECT 1 FROM index_entries WHERE number = ?)`,
    ),
    dropped: new Query(database, 'SELECT number FROM dropped_indexes LIMIT 1'),
    purge: new Query(
      database,
      `DELETE FROM index_entries WHERE number = ? AND (key, created) IN
        (SELECT key, created FROM index_entries WHERE number = ? ${LIMIT})`,
    ),
    purged: new Query(database, 'DELETE FROM dropped_indexes WHERE number = ?'),
  }
}
