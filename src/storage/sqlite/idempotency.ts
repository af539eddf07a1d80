import type { DatabaseSync } from 'node:sqlite'
import { type Block, packPosition } from '../../chain/index.ts'
import {
  ERASED_FINGERPRINT,
  IDEMPOTENCY_RECORDS_KEPT_MS,
  type IdempotencyRecord,
  idempotencyDigest,
  type NewIdempotencyRecord,
} from '../idempotency-record.ts'
import type { Addition } from './addition.ts'
import { integerOf, keptAnswerOf } from './rows.ts'
import { LIMIT, Query } from './statements.ts'

/** Answers removed by one `tidy`. */
const PURGE_ANSWERS = 500

/**
 * - `answers`: for requests that ask to be done once, which of them was answered by the entries at
 *   which position. Nothing of it comes from the chain.
 */
export const ANSWERS: Addition = {
  tables: `
    CREATE TABLE answers (
      position INTEGER PRIMARY KEY,
      key TEXT NOT NULL UNIQUE,
      fingerprint TEXT NOT NULL,
      entries INTEGER NOT NULL,
      timestamp INTEGER NOT NULL,
      digest TEXT NOT NULL
    ) STRICT;
  `,
}

const COLUMNS = 'position, key, fingerprint, entries, timestamp, digest'

/** Keeps answers, for as long as IDEMPOTENCY_RECORDS_KEPT_MS. */
export class AnswerRows {
  readonly #insert: Query
  readonly #purge: Query
  readonly #oldest: Query
  readonly #upTo: Query
  /** The timestamp of the oldest one, so that nobody looks for what cannot be there; null for none. */
  #oldestMs: number | null

  constructor(database: DatabaseSync) {
    // A key that is used again after its time takes the place of the old one.
    this.#insert = new Query(
      database,
      `INSERT OR REPLACE INTO answers (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)`,
    )
    // Timestamps never decrease along the chain, so the oldest stand first.
    this.#purge = new Query(
      database,
      `DELETE FROM answers WHERE timestamp <= ? AND position IN
        (SELECT position FROM answers ORDER BY position LIMIT ${PURGE_ANSWERS})`,
    )
    this.#oldest = new Query(database, 'SELECT timestamp FROM answers ORDER BY position LIMIT 1')
    this.#upTo = new Query(
      database,
      `SELECT ${COLUMNS} FROM answers WHERE position <= ? ORDER BY position DESC LIMIT 1`,
    )
    this.#oldestMs = this.#readOldest()
  }

  /** Inside the transaction that appends `block`. */
  keep(block: Block, { key, fingerprint, index, entries }: NewIdempotencyRecord): void {
    const timestamp = block.timestamps[index] ?? 0
    const position = packPosition(block.height, index)
    this.#put({ position, key, fingerprint, entries, timestamp })
    this.#oldestMs ??= timestamp
  }

  /** Inside the transaction that erases the entry at `position`: forgets what its request looked like. */
  forgetFingerprint(position: number): void {
    const row = this.#upTo.get(position)
    const answer = row === undefined ? null : keptAnswerOf(row)
    if (answer === null || answer.position + answer.entries <= position) return
    this.#put({ ...answer, fingerprint: ERASED_FINGERPRINT })
  }

  /** Whether there are some to remove when the head of the chain is of `headMs`. */
  isDue(headMs: number): boolean {
    return this.#oldestMs !== null && headMs - this.#oldestMs >= IDEMPOTENCY_RECORDS_KEPT_MS
  }

  /** Removes some of those that need not be kept; a transaction of its own. */
  purge(headMs: number): void {
    this.#purge.run(headMs - IDEMPOTENCY_RECORDS_KEPT_MS)
    this.#oldestMs = this.#readOldest()
  }

  #put(answer: Omit<IdempotencyRecord, 'digest'>): void {
    const { position, key, fingerprint, entries, timestamp } = answer
    this.#insert.run(position, key, fingerprint, entries, timestamp, idempotencyDigest(answer))
  }

  #readOldest(): number | null {
    const row = this.#oldest.get()
    return row === undefined ? null : integerOf(row, 'timestamp')
  }
}

/** Reads kept answers. */
export class AnswerReader {
  readonly #byKey: Query
  readonly #inOrder: Query

  constructor(database: DatabaseSync) {
    this.#byKey = new Query(database, `SELECT ${COLUMNS} FROM answers WHERE key = ?`)
    this.#inOrder = new Query(
      database,
      `SELECT ${COLUMNS} FROM answers WHERE position > ? ORDER BY position ${LIMIT}`,
    )
  }

  /** As `StoreReader.idempotencyRecord`. */
  byKey(key: string): IdempotencyRecord | null {
    const row = this.#byKey.get(key)
    return row === undefined ? null : keptAnswerOf(row)
  }

  /** As `StoreReader.idempotencyRecords`. */
  page(after: number, limit: number): IdempotencyRecord[] {
    return this.#inOrder.all(after, limit).map(keptAnswerOf)
  }
}
