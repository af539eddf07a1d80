import type { DatabaseSync } from 'node:sqlite'
import { type Block, isErased, unpackPosition } from '../../chain/index.ts'
import { type Effect, effectOf } from '../effect.ts'
import { parseEntry } from '../erasure.ts'
import { StoreError } from '../errors.ts'
import { PAGE_CHARACTERS, type RevisionRange, type StoredRevision } from '../store.ts'
import { bodyOf, bytesOf, integerOf } from './rows.ts'
import { queriesOf } from './statements.ts'

/**
 * The current revision is newer than all others, or absent, so concatenating both parts keeps the order.
 */
function positions(operator: '<' | '>', direction: 'ASC' | 'DESC'): string {
  return `SELECT position FROM superseded WHERE db = ?1 AND id = ?2 AND position ${operator} ?3
    UNION ALL SELECT revision FROM items WHERE db = ?1 AND id = ?2 AND revision ${operator} ?3
    ORDER BY 1 ${direction} LIMIT ?4 + 0`
}

const SQL = {
  addCurrent: `INSERT INTO superseded (db, id, position)
    SELECT db, id, revision FROM items WHERE db = ? AND id = ?`,
  addDeletion: 'INSERT INTO superseded (db, id, position) VALUES (?, ?, ?)',
  purge: `DELETE FROM superseded WHERE db = ?1 AND (id, position) IN
    (SELECT id, position FROM superseded WHERE db = ?1 LIMIT ?2 + 0)`,
  oldestFirst: positions('>', 'ASC'),
  newestFirst: positions('<', 'DESC'),
  block: 'SELECT body, timestamps, blinds FROM blocks WHERE height = ?',
} as const

type LoadedBlock = Pick<Block, 'height' | 'entries' | 'timestamps' | 'blinds'>

/** The histories of items (table `superseded`). */
export class History {
  readonly #sql

  constructor(database: DatabaseSync) {
    this.#sql = queriesOf(database, SQL)
  }

  /** Adds the current revision of an item, before it is replaced; inside the block's transaction. */
  addCurrent(database: number, id: string): void {
    this.#sql.addCurrent.run(database, id)
  }

  /** Adds the current revision and its deletion at `position`; inside the block's transaction. */
  addDeletion(database: number, id: string, position: number): void {
    this.#sql.addCurrent.run(database, id)
    this.#sql.addDeletion.run(database, id, position)
  }

  /** Removes at most `rows` rows of a deleted database; returns how many. */
  purge(database: number, rows: number): number {
    return this.#sql.purge.run(database, rows)
  }

  /** See `StoreReader.revisions`. */
  page(database: number, id: string, range: RevisionRange): StoredRevision[] {
    const { newestFirst, limit } = range
    const after = range.after ?? (newestFirst ? Number.MAX_SAFE_INTEGER : -1)
    const query = newestFirst ? this.#sql.newestFirst : this.#sql.oldestFirst
    const revisions: StoredRevision[] = []
    let block: LoadedBlock = { height: -1, entries: [], timestamps: [], blinds: new Uint8Array() }
    let characters = 0
    for (const row of query.iterate(database, id, after, limit)) {
      const position = integerOf(row, 'position')
      const { height, index } = unpackPosition(position)
      if (block.height !== height) {
        const found = this.#sql.block.get(height)
        if (found === undefined) throw damaged(id, position)
        block = { height, ...bodyOf(found), blinds: bytesOf(found.slice(2), 'blinds') }
        for (const { length } of block.entries) characters += length
      }
      revisions.push(revisionOf(id, position, block, index))
      if (characters >= PAGE_CHARACTERS) break
    }
    return revisions
  }
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

/** Returns the effect of a stored entry. Errors: STORE_DAMAGED. */
export function effectAt(text: string, position: number): Effect {
  const entry = parseEntry(text)
  if (entry === null) throw new StoreError('STORE_DAMAGED', 'a block holds what is not an entry')
  return effectOf(entry, position)
}

function damaged(id: string, position: number): StoreError {
  return new StoreError('STORE_DAMAGED', `no revision of ${id} stands at packed ${position}`)
}
