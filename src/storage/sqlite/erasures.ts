import type { DatabaseSync } from 'node:sqlite'
import { HASH_BYTES, hashAt, unpackPosition } from '../../chain/index.ts'
import type { Effect } from '../effect.ts'
import { erasedEntryText } from '../erasure.ts'
import { attachmentEraser } from './attachments.ts'
import { bytesOf, integerOf } from './rows.ts'
import { Query } from './statements.ts'

/**
 * - `erasures`: the erased entries, each with the position of the entry that erases it.
 * - `uncompacted`: the erasing entries after which the file was not written anew yet.
 */
export const ERASURES = {
  tables: `
    CREATE TABLE erasures (position INTEGER PRIMARY KEY, eraser INTEGER NOT NULL) STRICT;
    CREATE TABLE uncompacted (position INTEGER PRIMARY KEY) STRICT;
  `,
}

type Erasure = Extract<Effect, { kind: 'erase_item' }>

/** Takes the content of entries out of their blocks, inside the transaction of the erasing block. */
export class ErasureRows {
  readonly #database: DatabaseSync
  readonly #block: Query
  readonly #current: Query
  readonly #attached: Query
  readonly #forgetAttachment: (position: number) => void
  readonly #dropped: Query
  readonly #update: Query
  readonly #insert: Query
  readonly #due: Query
  readonly #isDue: Query
  #compacting: boolean
  /** Whether the file was written anew since the last erasure. */
  #isFileNew = false

  constructor(database: DatabaseSync) {
    this.#database = database
    this.#block = new Query(database, 'SELECT blinds, body FROM blocks WHERE height = ?')
    this.#current = new Query(
      database,
      `SELECT count(*) FROM items
        WHERE db = (SELECT created FROM databases WHERE name = ?) AND id = ? AND revision = ?`,
    )
    this.#attached = new Query(
      database,
      `SELECT count(*) FROM attachments AS row
        JOIN databases ON databases.created = row.db
        JOIN items ON items.db = row.db AND items.id = row.id AND items.created < row.position
        WHERE row.position = ? AND row.ended IS NULL`,
    )
    this.#forgetAttachment = attachmentEraser(database)
    this.#dropped = new Query(
      database,
      'DELETE FROM items WHERE db IN (SELECT db FROM dropped) AND id = ? AND revision = ?',
    )
    this.#update = new Query(database, 'UPDATE blocks SET body = ?, blinds = ? WHERE height = ?')
    this.#insert = new Query(database, 'INSERT INTO erasures (position, eraser) VALUES (?, ?)')
    this.#due = new Query(database, 'INSERT INTO uncompacted (position) VALUES (?)')
    this.#isDue = new Query(database, 'SELECT position FROM uncompacted LIMIT 1')
    this.#compacting = this.#isDue.get() !== undefined
  }

  /** Whether erased content may still be in the free parts of the files. */
  get isCompactionDue(): boolean {
    return this.#compacting
  }

  /** Erases; false when a position is not that of a former revision of the item or of its attachments. */
  erase({ position: eraser, db, of, positions }: Erasure): boolean {
    // What came erased from another place was never in these files.
    let isErasedHere = false
    const byHeight = Map.groupBy(positions, (position) => unpackPosition(position).height)
    for (const [height, some] of byHeight) {
      const row = this.#block.get(height)
      if (row === undefined) return false
      const blinds = Uint8Array.from(bytesOf(row, 'blinds'))
      const entries = String(row[1]).split('\n')
      for (const position of some) {
        const { index } = unpackPosition(position)
        const left = erasedEntryText(entries[index] ?? '', db, of)
        isErasedHere ||= left !== entries[index]
        if (left === null || this.#isCurrent(db, of, position)) return false
        entries[index] = left
        hashAt(blinds, index).fill(0, 0, HASH_BYTES)
        this.#insert.run(position, eraser)
        // The row of a deleted database would go in its turn; now its content must.
        this.#dropped.run(of, position)
        this.#forgetAttachment(position)
      }
      this.#update.run(entries.join('\n'), blinds, height)
    }
    if (!isErasedHere) return true
    this.#due.run(eraser)
    this.#compacting = true
    this.#isFileNew = false
    return true
  }

  /**
   * Writes the file anew and empties the log, so that no free page, no free part of a page and no old
   * frame holds what was erased. False when a reader still looks at the old frames: to be called again.
   * `expectRoom` is called before the file is written; what it throws is to be tried again.
   *
   * A crash at any point leaves the note in `uncompacted`, and the next run does all of it again.
   */
  compact(expectRoom: () => void): boolean {
    if (!this.#isFileNew) {
      expectRoom()
      this.#database.exec('VACUUM')
    }
    this.#isFileNew = true
    const truncated = new Query(this.#database, 'PRAGMA wal_checkpoint(TRUNCATE)').get()
    if (truncated?.[0] !== 0) return false
    this.#database.exec('DELETE FROM uncompacted')
    this.#compacting = false
    return true
  }

  #isCurrent(db: string, id: string, position: number): boolean {
    const counts = [this.#current.get(db, id, position), this.#attached.get(position)]
    return counts.some((row) => row !== undefined && integerOf(row, 'count') > 0)
  }
}
