import type { Block } from '../../chain/index.ts'
import type { Effect } from '../port/effect.ts'
import { IDEMPOTENCY_RECORDS_KEPT_MS } from '../port/store.ts'
import { READY } from '../search/declared-indexes.ts'
import { advanceIndexes, type Index, isIndexWorkDue, readIndexes } from '../sql/indexes.ts'
import { Compaction } from './compaction.ts'
import type { ConnectionOptions, Queries } from './connection.ts'
import { indexRows } from './indexes.ts'

/** Maximum rows of each kind that one step removes. */
const PURGE_ROWS = 500
/** Interval at which a process searches for work that another process has left, for example because it was killed. */
const SEARCH_MS = 10_000

const SQL = {
  due: `SELECT EXISTS (SELECT 1 FROM dropped), EXISTS (SELECT 1 FROM indexes WHERE built <> ${READY}),
    EXISTS (SELECT 1 FROM uncompacted)`,
  dropped: 'SELECT db FROM dropped LIMIT 1',
  purgeItems: `WITH purged AS (DELETE FROM items WHERE created IN
      (SELECT created FROM items WHERE db = $1 ORDER BY created LIMIT $2) RETURNING db, id, revision, created),
    kept AS (INSERT INTO superseded (db, id, position) SELECT db, id, revision FROM purged),
    deleted AS (INSERT INTO deleted_items (db, id, deleted, created)
      SELECT p.db, p.id, d.deleted, p.created FROM purged AS p JOIN deleted_databases AS d ON d.created = p.db)
    SELECT count(*) FROM purged`,
  removeDropped: 'DELETE FROM dropped WHERE db = $1',
  // Timestamps never decrease along the chain, so the oldest records come first.
  purgeRecords: `DELETE FROM answers WHERE timestamp <= $1 AND position IN
    (SELECT position FROM answers ORDER BY position LIMIT ${PURGE_ROWS})`,
  oldestRecord: 'SELECT timestamp FROM answers ORDER BY position LIMIT 1',
} as const

/** Runs `work` in a transaction that has locked the store. */
export type Transact = <Result>(work: () => Promise<Result>) => Promise<Result>

/**
 * The maintenance between blocks. Each process does the pending work that it has detected, and skips work that another
 * process has done already.
 */
export class Maintenance {
  readonly #queries: Queries
  readonly #compaction: Compaction
  #searchedMs = Number.NEGATIVE_INFINITY
  #isPurgeDue = false
  #isCompactionDue = false
  /** Whether an index may be incomplete. */
  #isIndexWorkDue = false
  /** Timestamp of the oldest idempotency record that this process has read or written; null if there is no record. */
  #oldestRecordMs: number | null = null

  constructor(queries: Queries, options: ConnectionOptions) {
    this.#queries = queries
    this.#compaction = new Compaction(options)
  }

  /** Reads the pending work of earlier runs. */
  async begin(): Promise<void> {
    this.#oldestRecordMs = await this.#readOldestRecord()
  }

  close(): Promise<void> {
    return this.#compaction.close()
  }

  blockStored(block: Block, effects: readonly Effect[], hasRecords: boolean): void {
    for (const { kind } of effects) {
      if (kind === 'delete_db') this.#isPurgeDue = this.#isIndexWorkDue = true
      if (kind === 'erase_item') this.#isCompactionDue = true
    }
    if (hasRecords) this.#oldestRecordMs ??= block.timestamps[0] ?? 0
  }

  indexesChanged(indexes: readonly Index[]): void {
    this.#isIndexWorkDue ||= isIndexWorkDue(indexes)
  }

  /** Does a bounded amount of work; `headMs` is the timestamp of the head. Returns whether more is due. */
  async step(headMs: number, transact: Transact): Promise<boolean> {
    if (performance.now() - this.#searchedMs >= SEARCH_MS) await this.#search()
    if (this.#isPurgeDue) this.#isPurgeDue = await transact(() => this.#purgeDropped())
    if (this.#isIndexWorkDue) {
      await transact(() => advanceIndexes(indexRows(this.#queries)))
      this.#isIndexWorkDue = isIndexWorkDue(await readIndexes(this.#queries))
    }
    if (this.#hasExpiredRecords(headMs)) {
      await this.#queries.rows(SQL.purgeRecords, [headMs - IDEMPOTENCY_RECORDS_KEPT_MS])
      this.#oldestRecordMs = await this.#readOldestRecord()
    }
    const isMoreDue = this.#hasExpiredRecords(headMs) || this.#isPurgeDue || this.#isIndexWorkDue
    if (this.#isCompactionDue && !isMoreDue) {
      this.#isCompactionDue = this.#compaction.start() === null
    }
    return isMoreDue
  }

  /** Finds work that is due in the database, also work of other processes. */
  async #search(): Promise<void> {
    const [row = []] = await this.#queries.rows(SQL.due, [])
    const [isPurgeDue, isIndexWorkDue, isCompactionDue] = row
    this.#isPurgeDue ||= isPurgeDue === true
    this.#isIndexWorkDue ||= isIndexWorkDue === true
    this.#isCompactionDue = isCompactionDue === true
    this.#searchedMs = performance.now()
  }

  /** Moves some items of a deleted database to its history; returns whether more may remain. */
  async #purgeDropped(): Promise<boolean> {
    const [row] = await this.#queries.rows(SQL.dropped, [])
    if (row === undefined) return false
    const database = Number(row[0])
    const [purged] = await this.#queries.rows(SQL.purgeItems, [database, PURGE_ROWS])
    if (Number(purged?.[0]) < PURGE_ROWS) await this.#queries.rows(SQL.removeDropped, [database])
    return true
  }

  #hasExpiredRecords(headMs: number): boolean {
    const oldest = this.#oldestRecordMs
    return oldest !== null && headMs - oldest >= IDEMPOTENCY_RECORDS_KEPT_MS
  }

  async #readOldestRecord(): Promise<number | null> {
    const [row] = await this.#queries.rows(SQL.oldestRecord, [])
    return row === undefined ? null : Number(row[0])
  }
}
