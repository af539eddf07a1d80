import type { DatabaseSync } from 'node:sqlite'
import { type Json, parseJson } from '../../base/json.ts'
import { type Block, entryOf, isErased, packPosition, unpackPosition } from '../../chain/index.ts'
import { type Effect, effectOf } from '../effect.ts'
import { StoreError } from '../errors.ts'
import { PAGE_CHARACTERS, type RevisionRange, type StoredRevision } from '../store.ts'
import type { Addition } from './addition.ts'
import { bodyOf, bytesOf, integerOf } from './rows.ts'
import { Query } from './statements.ts'

/**
 * - `superseded`: where the revisions of items stand that are no longer current, and deletions. Its
 *   texts are those of the blocks; the current revision is the one that `items` names. So a creation
 *   writes nothing here. Rows of a deleted database go as its items do.
 */
export const SUPERSEDED: Addition = {
  tables: `
    CREATE TABLE superseded (
      db INTEGER NOT NULL,
      id TEXT NOT NULL,
      position INTEGER NOT NULL,
      PRIMARY KEY (db, id, position)
    ) STRICT, WITHOUT ROWID;
  `,
  filler(database) {
    // Only what can still be asked for: an entry of a live database that is not current.
    const insert = new Query(
      database,
      `INSERT INTO superseded (db, id, position) SELECT ?1, ?2, ?3
        WHERE EXISTS (SELECT 1 FROM databases WHERE created = ?1)
        AND NOT EXISTS (SELECT 1 FROM items WHERE db = ?1 AND id = ?2 AND revision = ?3)`,
    )
    const created = new Map<string, number>()
    return ({ height, entries }: Block) => {
      for (const [index, text] of entries.entries()) {
        const effect = effectAt(text, packPosition(height, index))
        if (effect.kind === 'create_db') created.set(effect.db, effect.position)
        if ('id' in effect) insert.run(created.get(effect.db) ?? -1, effect.id, effect.position)
      }
    }
  },
}

/** Notes what is no longer current; called inside the transaction of an append, before the change. */
export class SupersededRows {
  readonly #current: Query
  readonly #deletion: Query
  readonly #purge: Query

  constructor(database: DatabaseSync) {
    this.#current = new Query(
      database,
      `INSERT INTO superseded (db, id, position)
        SELECT db, id, revision FROM items WHERE db = ? AND id = ?`,
    )
    this.#deletion = new Query(
      database,
      'INSERT INTO superseded (db, id, position) VALUES (?, ?, ?)',
    )
    this.#purge = new Query(
      database,
      `DELETE FROM superseded WHERE db = ?1 AND (id, position) IN
        (SELECT id, position FROM superseded WHERE db = ?1 LIMIT ?2 + 0)`,
    )
  }

  /** The current revision of the item, before it is replaced. */
  note(database: number, id: string): void {
    this.#current.run(database, id)
  }

  /** The same before it is deleted, and the deletion at `position`, which is never current. */
  noteDeletion(database: number, id: string, position: number): void {
    this.#current.run(database, id)
    this.#deletion.run(database, id, position)
  }

  /** Removes at most `rows` of a deleted database; says how many. */
  purge(database: number, rows: number): number {
    return this.#purge.run(database, rows)
  }
}

/** Reads histories. */
export class Revisions {
  readonly #oldestFirst: Query
  readonly #newestFirst: Query
  readonly #block: Query
  readonly #has: Query
  readonly #count: Query

  constructor(database: DatabaseSync) {
    this.#oldestFirst = new Query(database, `${positions('>')} ORDER BY 1 LIMIT ?4 + 0`)
    this.#newestFirst = new Query(database, `${positions('<')} ORDER BY 1 DESC LIMIT ?4 + 0`)
    this.#block = new Query(
      database,
      'SELECT body, timestamps, blinds FROM blocks WHERE height = ?',
    )
    this.#has = new Query(
      database,
      'SELECT count(*) FROM superseded WHERE db = ? AND id = ? AND position = ?',
    )
    this.#count = new Query(database, 'SELECT count(*) FROM superseded WHERE db = ?')
  }

  /** As `StoreReader.revisions`. */
  page(database: number, id: string, range: RevisionRange): StoredRevision[] {
    const { newestFirst, limit } = range
    const after = range.after ?? (newestFirst ? Number.MAX_SAFE_INTEGER : -1)
    const rows = newestFirst ? this.#newestFirst : this.#oldestFirst
    const revisions: StoredRevision[] = []
    let block: LoadedBlock = { height: -1, entries: [], timestamps: [], blinds: new Uint8Array() }
    let characters = 0
    for (const row of rows.iterate(database, id, after, limit)) {
      const position = integerOf(row, 'position')
      const { height, index } = unpackPosition(position)
      if (block.height !== height) {
        const found = this.#block.get(height)
        if (found === undefined) throw damaged(id, position)
        block = { height, ...bodyOf(found), blinds: bytesOf(found.slice(2), 'blinds') }
        for (const { length } of block.entries) characters += length
      }
      revisions.push(revisionOf(id, position, block, index))
      if (characters >= PAGE_CHARACTERS) break
    }
    return revisions
  }

  /** As `StoreReader.isSuperseded`. */
  has(database: number, id: string, position: number): boolean {
    const row = this.#has.get(database, id, position)
    return row !== undefined && integerOf(row, 'count') > 0
  }

  /** As `StoreReader.countSuperseded`. */
  count(database: number): number {
    const row = this.#count.get(database)
    return row === undefined ? 0 : integerOf(row, 'count')
  }
}

type LoadedBlock = Pick<Block, 'height' | 'entries' | 'timestamps' | 'blinds'>

/** The current revision is behind all others, or there is none, so both parts come in order. */
function positions(beyond: '<' | '>'): string {
  return `SELECT position FROM superseded WHERE db = ?1 AND id = ?2 AND position ${beyond} ?3
    UNION ALL SELECT revision FROM items WHERE db = ?1 AND id = ?2 AND revision ${beyond} ?3`
}

function revisionOf(
  id: string,
  position: number,
  block: LoadedBlock,
  index: number,
): StoredRevision {
  const entry = block.entries[index]
  const timestamp = block.timestamps[index]
  if (entry === undefined || timestamp === undefined) throw damaged(id, position)
  const effect = effectAt(entry, position)
  if (!('id' in effect) || 'attachment' in effect || effect.id !== id) throw damaged(id, position)
  const text = effect.kind === 'delete_item' || isErased(block, index) ? null : effect.text
  return { position, timestamp, kind: effect.kind, text }
}

function effectAt(text: string, position: number): Effect {
  const entry = entryOf(parsed(text))
  if (entry === null) throw new StoreError('STORE_DAMAGED', 'a block holds what is not an entry')
  return effectOf(entry, position)
}

function parsed(text: string): Json {
  try {
    return parseJson(text)
  } catch {
    return null
  }
}

function damaged(id: string, position: number): StoreError {
  return new StoreError('STORE_DAMAGED', `no revision of ${id} stands at packed ${position}`)
}
