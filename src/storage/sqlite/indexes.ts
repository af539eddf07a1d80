import { createHash } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import { type JsonObject, parseJson } from '../../base/json.ts'
import type { Path } from '../../filter/index.ts'
import { INDEXES_PER_DATABASE, type IndexOutcome } from '../port/store.ts'
import { BUILD_CHARACTERS, BUILD_ITEMS, PURGE_ENTRIES, READY } from '../search/declared-indexes.ts'
import { keysOf } from '../search/index-keys.ts'
import { integerOf } from '../sql/rows.ts'
import { LIMIT, queriesOf } from './statements.ts'

const SQL = {
  indexes: 'SELECT number, db, path, built FROM indexes ORDER BY number',
  item: 'SELECT created, item FROM items WHERE db = ? AND id = ?',
  items: `SELECT created FROM items WHERE db = ? AND created > ? ORDER BY created ${LIMIT}`,
  text: 'SELECT item FROM items WHERE created = ?',
  // A number can be reused once the entries of its former index are removed.
  freeNumber: `SELECT 1 + max(coalesce((SELECT max(number) FROM indexes), 0),
    coalesce((SELECT max(number) FROM dropped_indexes), 0))`,
  declare: 'INSERT INTO indexes (number, db, path, built, mark) VALUES (?, ?, ?, ?, ?)',
  undeclare: 'DELETE FROM indexes WHERE number = ?',
  setBuilt: 'UPDATE indexes SET built = ? WHERE number = ?',
  addEntry: 'INSERT INTO index_entries (number, key, created, sorts) VALUES (?, ?, ?, ?)',
  removeEntry: 'DELETE FROM index_entries WHERE number = ? AND key = ? AND created = ?',
  // Adds no row for an index without entries, because there is nothing to purge.
  drop: `INSERT INTO dropped_indexes (number)
    SELECT ? WHERE EXISTS (SELECT 1 FROM index_entries WHERE number = ?)`,
  dropped: 'SELECT number FROM dropped_indexes LIMIT 1',
  purge: `DELETE FROM index_entries WHERE number = ? AND (key, created) IN
    (SELECT key, created FROM index_entries WHERE number = ? ${LIMIT})`,
  purged: 'DELETE FROM dropped_indexes WHERE number = ?',
} as const

interface Index {
  readonly number: number
  readonly path: Path
  readonly database: number
  built: number
}

/**
 * Updates the indexes inside the transaction of each block, and builds new indexes between blocks.
 *
 * An index contains the items created up to `built`. Building adds entries and advances `built` in one transaction, so
 * a crash leaves an index that is correct up to `built`, and the next run continues.
 */
export class Indexes {
  readonly #sql
  /** Indexes by database; only databases that have indexes. */
  readonly #indexes = new Map<number, Index[]>()
  #isPurgeDue = true

  constructor(connection: DatabaseSync) {
    this.#sql = queriesOf(connection, SQL)
    this.reload()
  }

  /** Reads the declarations again, after a change or a rollback. */
  reload(): void {
    this.#indexes.clear()
    for (const [number, database, path, built] of this.#sql.indexes.all()) {
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

  /** Call when an item is created. */
  itemCreated(database: number, position: number, text: string): void {
    const indexes = this.#indexes.get(database)
    if (indexes !== undefined) this.#addItem(indexes, position, parseJson(text))
  }

  /** Call before an item is replaced or deleted. `text` is null for a deletion. */
  itemChanging(database: number, id: string, text: string | null): void {
    const indexes = this.#indexes.get(database)
    if (indexes === undefined) return
    const [created, before] = this.#sql.item.get(database, id) ?? []
    if (typeof created !== 'number' || typeof before !== 'string') return
    const old = parseJson(before)
    for (const { number, path, built } of indexes) {
      if (created > built) continue
      for (const { key } of keysOf(old, path)) this.#sql.removeEntry.run(number, key, created)
    }
    if (text !== null) this.#addItem(indexes, created, parseJson(text))
  }

  /** Removes the indexes of a deleted database. */
  databaseDeleted(database: number): void {
    for (const { number } of this.#indexes.get(database) ?? []) this.#drop(number)
    this.#indexes.delete(database)
  }

  /** Call inside a transaction. */
  add(database: number, path: string): IndexOutcome {
    const indexes = this.#indexes.get(database) ?? []
    if (indexes.some((index) => index.path.join('.') === path)) return 'exists'
    if (indexes.length >= INDEXES_PER_DATABASE) return 'too-many'
    const number = Number(this.#sql.freeNumber.get()?.[0])
    this.#sql.declare.run(number, database, path, -1, declarationMark(number, database, path))
    this.reload()
    return 'done'
  }

  /** Call inside a transaction. */
  remove(database: number, path: string): IndexOutcome {
    const index = this.#indexes.get(database)?.find((each) => each.path.join('.') === path)
    if (index === undefined) return 'missing'
    this.#drop(index.number)
    this.reload()
    return 'done'
  }

  get isWorkDue(): boolean {
    return this.#isPurgeDue || this.#unfinished() !== undefined
  }

  /** Does a bounded amount of building and purging; call inside a transaction. */
  work(): void {
    if (this.#isPurgeDue) this.#purge()
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
    const rows = this.#sql.items.all(index.database, index.built, BUILD_ITEMS)
    for (const [created] of rows) {
      const position = Number(created)
      const text = String(this.#sql.text.get(position)?.[0])
      this.#addKeys(index, position, parseJson(text))
      last = position
      items += 1
      characters += text.length
      if (characters >= BUILD_CHARACTERS) break
    }
    index.built = items === rows.length && rows.length < BUILD_ITEMS ? READY : last
    this.#sql.setBuilt.run(index.built, index.number)
  }

  #addItem(indexes: readonly Index[], created: number, item: JsonObject): void {
    for (const index of indexes) if (created <= index.built) this.#addKeys(index, created, item)
  }

  #addKeys({ number, path }: Index, created: number, item: JsonObject): void {
    for (const { key, sorts } of keysOf(item, path)) {
      this.#sql.addEntry.run(number, key, created, sorts ? 1 : 0)
    }
  }

  #drop(number: number): void {
    this.#sql.undeclare.run(number)
    this.#sql.drop.run(number, number)
    this.#isPurgeDue = true
  }

  #purge(): void {
    const [number] = this.#sql.dropped.get() ?? []
    this.#isPurgeDue = typeof number === 'number'
    if (typeof number !== 'number') return
    const changes = this.#sql.purge.run(number, number, PURGE_ENTRIES)
    if (changes < PURGE_ENTRIES) this.#sql.purged.run(number)
  }
}

/** Returns the `mark` that a declaration must have: a hash, by which a verification detects a changed declaration. */
export function declarationMark(number: number, database: number, path: string): string {
  return createHash('sha256').update(`${number} ${database} ${path}`).digest('hex').slice(0, 16)
}

const CHECK = {
  indexes: `SELECT i.number, i.db, i.path, i.built, d.name, i.mark FROM indexes AS i
    LEFT JOIN databases AS d ON d.created = i.db ORDER BY i.number`,
  lastItem: 'SELECT max(created) FROM items',
  items: 'SELECT created, item FROM items WHERE db = ? AND created <= ? ORDER BY created',
  entry: 'SELECT sorts FROM index_entries WHERE number = ? AND key = ? AND created = ?',
  count: 'SELECT count(*) FROM index_entries WHERE number = ?',
  dropped: 'SELECT number FROM dropped_indexes',
  nextNumber: 'SELECT min(number) FROM index_entries WHERE number > ?',
} as const

/**
 * Compares all indexes with the items; returns the first difference, or null. Looks up every entry that an item should
 * have, and compares the number of entries, in constant memory.
 */
export function indexDamage(connection: DatabaseSync): string | null {
  const sql = queriesOf(connection, CHECK)
  const indexes = sql.indexes.all()
  const strayEntry = strayEntries(sql, new Set(indexes.map((row) => integerOf(row, 'number'))))
  if (strayEntry !== null) return strayEntry
  const last = sql.lastItem.get()?.[0]
  for (const [number, database, path, built, name, mark] of indexes) {
    const label = `index ${path} of database ${name}`
    if (mark !== declarationMark(Number(number), Number(database), String(path))) {
      return `index ${number} on ${path} differs from its declaration`
    }
    if (typeof name !== 'string') return `index ${number} belongs to no database`
    if (Number(built) < -1 || (built !== READY && Number(built) > Number(last ?? -1))) {
      return `${label} is marked as built up to an item that does not exist`
    }
    let entries = 0
    for (const [created, item] of sql.items.iterate(Number(database), Number(built))) {
      for (const { key, sorts } of keysOf(parseJson(String(item)), String(path).split('.'))) {
        const found = sql.entry.get(Number(number), key, Number(created))
        if (found?.[0] !== (sorts ? 1 : 0)) {
          return `${label} lacks an entry for item ${parseJson(String(item)).id}`
        }
        entries += 1
      }
    }
    const storedEntries = Number(sql.count.get(Number(number))?.[0])
    if (storedEntries !== entries)
      return `${label} has ${storedEntries} entries instead of ${entries}`
  }
  return null
}

/** Finds entries of unknown indexes, and wrong rows of `dropped_indexes`. */
function strayEntries(
  sql: ReturnType<typeof queriesOf<keyof typeof CHECK>>,
  known: ReadonlySet<number>,
): string | null {
  const dropped = new Set(sql.dropped.all().map((row) => integerOf(row, 'number')))
  const held = new Set<number>()
  for (let number = sql.nextNumber.get(-(2 ** 52))?.[0]; typeof number === 'number'; ) {
    if (!known.has(number) && !dropped.has(number))
      return `there are entries of an unknown index, ${number}`
    held.add(number)
    number = sql.nextNumber.get(number)?.[0]
  }
  const wrong = [...dropped].find((number) => known.has(number) || !held.has(number))
  if (wrong === undefined) return null
  const fault = known.has(wrong) ? 'still exists' : 'has no entries left to remove'
  return `index ${wrong} is listed as removed, but ${fault}`
}
