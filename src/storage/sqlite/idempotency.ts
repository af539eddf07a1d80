import type { DatabaseSync } from 'node:sqlite'
import { type Block, packPosition } from '../../chain/index.ts'
import {
  IDEMPOTENCY_RECORDS_KEPT_MS,
  idempotencyDigest,
  type NewIdempotencyRecord,
} from '../port/store.ts'
import { readInteger } from '../sql/rows.ts'
import { toQueries } from './statements.ts'

const PURGE_ROWS = 500

const IDEMPOTENCY_COLUMNS = 'position, key, fingerprint, entries, timestamp, digest'

const SQL = {
  // Reusing an expired key replaces the old record.
  insert: `INSERT OR REPLACE INTO answers (${IDEMPOTENCY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)`,
  // Timestamps never decrease along the chain, so the oldest records come first.
  purge: `DELETE FROM answers WHERE timestamp <= ? AND position IN
    (SELECT position FROM answers ORDER BY position LIMIT ${PURGE_ROWS})`,
  oldest: 'SELECT timestamp FROM answers ORDER BY position LIMIT 1',
} as const

/** Writes idempotency records (table `answers`) and removes expired records. */
export class IdempotencyRows {
  readonly #sql
  /** Timestamp of the oldest record; null if there is none. */
  #oldestMs: number | null

  constructor(database: DatabaseSync) {
    this.#sql = toQueries(database, SQL)
    this.#oldestMs = this.#readOldest()
  }

  /** Adds a record inside the transaction that appends `block`. */
  add(block: Block, { key, fingerprint, index, entries }: NewIdempotencyRecord): void {
    const timestamp = block.timestamps[index] ?? 0
    const position = packPosition(block.height, index)
    const digest = idempotencyDigest({ position, key, fingerprint, entries, timestamp })
    this.#sql.insert.run(position, key, fingerprint, entries, timestamp, digest)
    this.#oldestMs ??= timestamp
  }

  /** Returns whether records have expired at the head's timestamp `headMs`. */
  hasExpired(headMs: number): boolean {
    return this.#oldestMs !== null && headMs - this.#oldestMs >= IDEMPOTENCY_RECORDS_KEPT_MS
  }

  /** Removes some expired records, in a separate transaction. */
  purge(headMs: number): void {
    this.#sql.purge.run(headMs - IDEMPOTENCY_RECORDS_KEPT_MS)
    this.#oldestMs = this.#readOldest()
  }

  #readOldest(): number | null {
    const row = this.#sql.oldest.get()
    return row === undefined ? null : readInteger(row, 'timestamp')
  }
}
