import { DatabaseSync } from 'node:sqlite'
import { HASH_BYTES } from '../../chain/index.ts'

/** A change of a key of a map. `kind` is a small number that only the caller understands. */
export interface KeyedChange {
  readonly map: number
  /** In hexadecimal digits. */
  readonly key: string
  readonly position: number
  readonly kind: number
}

/** A change in memory: key, map, position, kind. */
const MAP_AT = HASH_BYTES
const POSITION_AT = MAP_AT + 8
const KIND_AT = POSITION_AT + 8
const CHANGE_BYTES = KIND_AT + 1
const CHANGES_MAX = 50_000
/** Parts by the first byte of the key. */
const PARTS = 256

/**
 * Collects any number of changes in bounded memory, and returns them by ranges of their keys, so that each page of a map
 * is written once. SQLite removes the temporary file.
 */
export class ChangeRuns {
  readonly #most: number
  readonly #changes: Buffer
  readonly #file = new DatabaseSync('')
  readonly #insert
  #count = 0

  /** `most`: changes in memory before they are moved to the temporary file. */
  constructor(most = CHANGES_MAX) {
    this.#most = most
    this.#changes = Buffer.alloc(most * CHANGE_BYTES)
    this.#file.exec('PRAGMA journal_mode = OFF; CREATE TABLE runs (part INTEGER, changes BLOB)')
    this.#insert = this.#file.prepare('INSERT INTO runs VALUES (?, ?)')
  }

  add({ map, key, position, kind }: KeyedChange): void {
    if (this.#count === this.#most) this.#move()
    const at = this.#count * CHANGE_BYTES
    this.#changes.write(key, at, 'hex')
    this.#changes.writeDoubleBE(map, at + MAP_AT)
    this.#changes.writeDoubleBE(position, at + POSITION_AT)
    this.#changes[at + KIND_AT] = kind
    this.#count += 1
  }

  /**
   * Calls `receive` with the changes of each range of keys, in the order in which they were added. Ends the collection.
   * The changes of a range may be many, so `receive` must not keep them all.
   */
  end(receive: (changes: Iterable<KeyedChange>) => void): void {
    this.#move()
    this.#file.exec('CREATE INDEX by_part ON runs (part)')
    const read = this.#file.prepare('SELECT changes FROM runs WHERE part = ? ORDER BY rowid')
    for (let part = 0; part < PARTS; part += 1) receive(decodeChanges(read.iterate(part)))
  }

  close(): void {
    this.#file.close()
  }

  /** Moves the changes in memory to the file, divided by the first byte of their keys. */
  #move(): void {
    const parts = Array.from({ length: PARTS }, (): Buffer[] => [])
    for (let index = 0; index < this.#count; index += 1) {
      const from = index * CHANGE_BYTES
      const change = this.#changes.subarray(from, from + CHANGE_BYTES)
      parts[change[0] ?? 0]?.push(change)
    }
    this.#file.exec('BEGIN')
    for (const [part, changes] of parts.entries()) {
      if (changes.length > 0) this.#insert.run(part, Buffer.concat(changes))
    }
    this.#file.exec('COMMIT')
    this.#count = 0
  }
}

function* decodeChanges(rows: Iterable<Record<string, unknown>>): Generator<KeyedChange> {
  for (const { changes } of rows) {
    const run = Buffer.from(changes as Uint8Array)
    for (let at = 0; at < run.length; at += CHANGE_BYTES) {
      yield {
        key: run.toString('hex', at, at + HASH_BYTES),
        map: run.readDoubleBE(at + MAP_AT),
        position: run.readDoubleBE(at + POSITION_AT),
        kind: run[at + KIND_AT] ?? 0,
      }
    }
  }
}
