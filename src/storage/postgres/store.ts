import {
  type Block,
  type Frontier,
  frontierAt,
  grown,
  type Head,
  headerOf,
  headerText,
  headOf,
  leafHash,
  packPosition,
} from '../../chain/index.ts'
import type { Effect } from '../effect.ts'
import { inapplicable, StoreError } from '../errors.ts'
import {
  IDEMPOTENCY_RECORDS_KEPT_MS,
  type IndexOutcome,
  idempotencyDigest,
  type NewIdempotencyRecord,
  type Store,
  type StoredDatabase,
  type StoredItem,
} from '../store.ts'
import { Changes, itemKey, type Known, type RowEffect, readDatabases } from './changes.ts'
import { Connection, type ConnectionOptions, type Statement } from './connection.ts'
import { compact, erase } from './erasures.ts'
import { isConstraint, isTransient, storeErrorOf } from './errors.ts'
import {
  changeIndex,
  digestOf,
  type Index,
  isWorkDue,
  REMOVED,
  readIndexes,
  setBuilt,
  workOnIndexes,
} from './indexes.ts'
import { PostgresReader } from './reader.ts'
import { Attempts, retrying } from './retry.ts'
import { prepareSchema } from './schema.ts'
import { CommitUnknown, type Locked, WriteSession } from './transaction.ts'

/** Maximum rows of each kind removed by one step of maintenance. */
const PURGE_ROWS = 500
/** Maximum databases and items remembered between blocks. */
const REMEMBERED_MAX = 10_000

const SQL = {
  addBlock: `INSERT INTO blocks
    (height, id, prev_id, nonce, root, body, timestamps, blinds, commitments)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
  addLeaf: 'INSERT INTO tree (height, hashes) VALUES ($1, $2)',
  // Reusing an expired key replaces the old record.
  addRecords: `INSERT INTO answers (position, key, fingerprint, entries, timestamp, digest)
    SELECT * FROM unnest($1::int8[], $2::text[], $3::text[], $4::int8[], $5::int8[], $6::text[])
    ON CONFLICT (key) DO UPDATE SET position = excluded.position,
      fingerprint = excluded.fingerprint, entries = excluded.entries,
      timestamp = excluded.timestamp, digest = excluded.digest`,
  // Timestamps never decrease along the chain, so the oldest records come first.
  purgeRecords: `DELETE FROM answers WHERE timestamp <= $1 AND position IN
    (SELECT position FROM answers ORDER BY position LIMIT ${PURGE_ROWS})`,
  oldestRecord: 'SELECT timestamp FROM answers ORDER BY position LIMIT 1',
  dropped: 'SELECT db FROM dropped LIMIT 1',
  purgeItems: `WITH purged AS (DELETE FROM items WHERE created IN
      (SELECT created FROM items WHERE db = $1 ORDER BY created LIMIT $2) RETURNING 1)
    SELECT count(*) FROM purged`,
  purgeHistory: `WITH purged AS (DELETE FROM superseded WHERE db = $1 AND (id, position) IN
      (SELECT id, position FROM superseded WHERE db = $1 LIMIT $2) RETURNING 1)
    SELECT count(*) FROM purged`,
  removeDropped: 'DELETE FROM dropped WHERE db = $1',
  // An import may take longer between two blocks than an unresponsive process may hold the lock.
  patient: "SET LOCAL idle_in_transaction_session_timeout = '10min'",
} as const

/**
 * The PostgreSQL engine: one transaction per block, which locks the store first. Several processes may write
 * one store.
 *
 * After a crash of this process or the loss of its connection:
 * - before COMMIT arrives: the server rolls back; nothing of the block is stored.
 * - after it: all of it is stored. If only the answer was lost, `append` finds the block by its id, whose
 *   bytes were fixed before the first COMMIT was sent.
 */
class PostgresStore extends PostgresReader implements Store {
  readonly #session: WriteSession
  readonly #options: ConnectionOptions
  /** The state that the caches below belong to; null if it is unknown. */
  #cached: { readonly headId: string | null; readonly indexes: string } | null = null
  #head: Head | null = null
  #frontier: Frontier | null = null
  #indexes: readonly Index[] = []
  readonly #databases = new Map<string, number | null>()
  /** Items read in the current transaction. */
  readonly #items = new Map<string, { created: number; revision: number } | null>()
  /** True while several appends share one transaction. */
  #isShared = false
  #isPurgeDue = true
  #isCompactionDue = true
  /** Whether an index may be incomplete. */
  #isIndexWorkDue = true
  /** Timestamp of the oldest idempotency record that this process knows of; null if there is none. */
  #oldestRecordMs: number | null = null
  #lastMs = 0
  /** STORE_ROLLED_BACK: nothing may be written any more. */
  #failure: StoreError | null = null

  constructor(session: WriteSession, serverId: number, options: ConnectionOptions) {
    super(serverId, session, () => session.close())
    this.#session = session
    this.#options = options
  }

  /** Reads what maintenance depends on. */
  async begin(): Promise<void> {
    this.#lastMs = (await this.head(this.serverId))?.timestamp ?? 0
    this.#oldestRecordMs = await this.#readOldestRecord()
    this.#isCompactionDue = (await this.uncompacted()).length > 0
  }

  override async database(name: string): Promise<StoredDatabase | null> {
    if (!this.#session.isInTransaction) return super.database(name)
    const created = (await this.#namedDatabases([name])).get(name)
    return typeof created === 'number' ? { name, created } : null
  }

  override async item(db: string, id: string): Promise<StoredItem | null> {
    const item = await super.item(db, id)
    const database = this.#databases.get(db)
    if (this.#session.isInTransaction && typeof database === 'number') {
      this.#items.set(itemKey(database, id), item)
    }
    return item
  }

  async exclusive<Result>(work: (head: Head | null) => Promise<Result>): Promise<Result> {
    this.#refuseAfterFailure()
    await this.#toStoreError(() => retrying(() => this.#begin()))
    try {
      return await this.#toStoreError(() => work(this.#head))
    } finally {
      await this.#session.rollback()
    }
  }

  async append(
    block: Block,
    effects: readonly Effect[],
    records: readonly NewIdempotencyRecord[] = [],
  ): Promise<void> {
    this.#refuseAfterFailure()
    await this.#toStoreError(async () => {
      if (this.#isShared) {
        this.#requireNext(block)
        const { statements, frontier } = await this.#write(block, effects, records, true)
        await this.#session.run(statements)
        this.#advance(block, frontier, effects)
        return
      }
      await this.#commit(block, effects, records)
      this.#session.pin(block)
    })
    if (records.length > 0) this.#oldestRecordMs ??= block.timestamps[0] ?? 0
  }

  async transaction(appends: () => Promise<void>): Promise<void> {
    this.#refuseAfterFailure()
    await this.#toStoreError(async () => {
      await retrying(() => this.#begin())
      await this.#session.rows(SQL.patient, [])
      const before = this.#head
      this.#isShared = true
      try {
        await appends()
        await this.#commitShared(before)
      } finally {
        this.#isShared = false
        await this.#session.rollback()
      }
    })
  }

  async addIndex(db: string, path: string): Promise<IndexOutcome> {
    return this.#changeIndex(db, path, 'add')
  }

  async removeIndex(db: string, path: string): Promise<IndexOutcome> {
    return this.#changeIndex(db, path, 'remove')
  }

  async maintain(): Promise<boolean> {
    this.#refuseAfterFailure()
    return this.#toStoreError(async () => {
      if (this.#isCompactionDue) {
        await compact(this.#options)
        this.#isCompactionDue = false
      }
      if (this.#isPurgeDue) this.#isPurgeDue = await this.#transact(() => this.#purgeDropped())
      if (this.#isIndexWorkDue) {
        await this.#transact(() => workOnIndexes(this.#session))
        this.#isIndexWorkDue = isWorkDue(await readIndexes(this.#session))
      }
      if (this.#hasExpiredRecords()) {
        const until = this.#lastMs - IDEMPOTENCY_RECORDS_KEPT_MS
        await this.#session.rows(SQL.purgeRecords, [until])
        this.#oldestRecordMs = await this.#readOldestRecord()
      }
      return this.#hasExpiredRecords() || this.#isPurgeDue || this.#isIndexWorkDue
    })
  }

  /** Begins a transaction; forgets what another process may have changed. */
  async #begin(): Promise<void> {
    const locked = await this.#session.begin()
    this.#items.clear()
    const headId = locked.head?.id ?? null
    if (this.#cached?.headId !== headId || this.#databases.size > REMEMBERED_MAX) {
      this.#databases.clear()
      this.#frontier = null
    }
    if (this.#cached?.indexes !== locked.indexes) await this.#readIndexes(locked)
    this.#head = locked.head
    this.#lastMs = locked.head?.timestamp ?? 0
    this.#cached = { headId, indexes: locked.indexes }
  }

  async #readIndexes(locked: Locked): Promise<void> {
    this.#indexes = await readIndexes(this.#session)
    if (digestOf(this.#indexes) !== locked.indexes) {
      throw new StoreError('STORE_DAMAGED', 'the indexes are not as they were declared')
    }
    this.#isIndexWorkDue ||= isWorkDue(this.#indexes)
  }

  /** Appends `block` in a transaction of its own, or in that of `exclusive`. */
  async #commit(
    block: Block,
    effects: readonly Effect[],
    records: readonly NewIdempotencyRecord[],
  ): Promise<void> {
    const attempts = new Attempts()
    let isCareful = false
    let isUnknown = false
    for (;;) {
      try {
        if (!this.#session.isInTransaction) await this.#begin()
        if (isUnknown && (await this.#session.blockId(block.height)) === block.id) {
          // The lock was written to the log after the block: when its commit is acknowledged, by the standbys
          // too, so is the block.
          await this.#session.commit()
          this.#cached = null
          return
        }
        // With an unknown outcome, another block in this place proves that this one is not stored.
        this.#requireNext(block)
        const { statements, frontier } = await this.#write(block, effects, records, isCareful)
        await this.#session.commit(statements)
        this.#advance(block, frontier, effects)
        return
      } catch (error) {
        this.#cached = null
        isUnknown ||= error instanceof CommitUnknown
        // Repeats with the rows that must not exist, which finds the effect that does not apply.
        if (isConstraint(error) && !isCareful) isCareful = true
        else await this.#pause(attempts, error, isUnknown)
      }
    }
  }

  async #pause(attempts: Attempts, error: unknown, isUnknown: boolean): Promise<void> {
    try {
      await attempts.after(error)
    } catch (last) {
      if (!isUnknown || !isTransient(last)) throw last
      const what = 'the database did not say whether the block is stored'
      throw new StoreError('OUTCOME_UNKNOWN', what, { cause: last })
    }
  }

  /** Commits the blocks of `transaction`; `before` is the head before them. */
  async #commitShared(before: Head | null): Promise<void> {
    const last = this.#head
    if (last === null || last.id === before?.id) return
    const attempts = new Attempts()
    try {
      await this.#session.commit()
    } catch (error) {
      this.#cached = null
      if (!(error instanceof CommitUnknown)) throw error
      for (let failure: unknown = error; ; ) {
        await this.#pause(attempts, failure, true)
        try {
          await this.#begin()
          const isStored = (await this.#session.blockId(last.height)) === last.id
          await this.#session.commit()
          if (isStored) break
          throw new StoreError('STORE_UNAVAILABLE', 'nothing was stored: the connection was lost')
        } catch (next) {
          failure = next
        }
      }
    }
    this.#session.pin(last)
  }

  /** Applies the effects in the transaction, except for the returned statements. */
  async #write(
    block: Block,
    effects: readonly Effect[],
    records: readonly NewIdempotencyRecord[],
    careful: boolean,
  ): Promise<{ statements: Statement[]; frontier: Frontier }> {
    const { frontier, leaf } = await this.#grow(block)
    const statements = [this.#blockStatement(block), leaf]
    const names = new Set(effects.map(({ db }) => db))
    const known: Known & { databases: Map<string, number | null> } = {
      databases: new Map(await this.#namedDatabases([...names])),
      items: this.#items,
      indexes: this.#indexes.filter(({ built }) => built !== REMOVED),
    }
    const dropped: number[] = []
    let pending: RowEffect[] = []
    const flush = async () => {
      const options = { queries: this.#session, known, careful }
      const changes = await Changes.of(pending, options)
      statements.push(...changes.statements())
      for (const [name, created] of changes.databases) known.databases.set(name, created)
      dropped.push(...changes.dropped)
      pending = []
    }
    for (const effect of effects) {
      if (effect.kind === 'erased_attachment') continue
      if (effect.kind !== 'erase_item') {
        pending.push(effect)
        continue
      }
      // An erasure reads the rows as the effects before it have left them.
      await flush()
      await this.#session.run(statements.splice(0))
      this.#items.clear()
      if (!(await erase(this.#session, effect))) {
        await this.#session.rollback()
        throw inapplicable(effect)
      }
    }
    await flush()
    statements.push(...this.#dropIndexes(dropped), ...this.#recordStatements(block, records))
    return { statements, frontier }
  }

  #blockStatement(block: Block): Statement {
    const { height, id, prevId, nonce, root, entries, timestamps, blinds, commitments } = block
    const texts = [entries.join('\n'), timestamps.join('\n')]
    const values = [height, id, prevId, nonce, root, ...texts, blinds, commitments]
    return { text: SQL.addBlock, values }
  }

  /** Adds the leaf of `block` to the Merkle log. Errors: STORE_DAMAGED if earlier rows are missing. */
  async #grow(block: Block): Promise<{ frontier: Frontier; leaf: Statement }> {
    const { serverId } = this
    this.#frontier ??= await frontierAt(block.height, (nodes) => this.treeNodes(serverId, nodes))
    const { frontier, nodes } = grown(
      this.#frontier,
      leafHash(Buffer.from(headerText(headerOf(block)))),
    )
    const values = [block.height, Buffer.concat(nodes)]
    return { frontier, leaf: { text: SQL.addLeaf, values } }
  }

  /** Removes the indexes of deleted databases. */
  #dropIndexes(databases: readonly number[]): Statement[] {
    const isDropped = ({ database, built }: Index) =>
      databases.includes(database) && built !== REMOVED
    if (!this.#indexes.some(isDropped)) return []
    const all = this.#indexes.map((each) => (isDropped(each) ? { ...each, built: REMOVED } : each))
    return setBuilt(
      all.filter((each, at) => each !== this.#indexes[at]),
      all,
    )
  }

  #recordStatements(block: Block, records: readonly NewIdempotencyRecord[]): Statement[] {
    if (records.length === 0) return []
    const rows = records.map(({ key, fingerprint, index, entries }) => {
      const timestamp = block.timestamps[index] ?? 0
      const record = {
        position: packPosition(block.height, index),
        key,
        fingerprint,
        entries,
        timestamp,
      }
      return { ...record, digest: idempotencyDigest(record) }
    })
    const values = [
      `{${rows.map(({ position }) => position).join(',')}}`,
      rows.map(({ key }) => key),
      rows.map(({ fingerprint }) => fingerprint),
      `{${rows.map(({ entries }) => entries).join(',')}}`,
      `{${rows.map(({ timestamp }) => timestamp).join(',')}}`,
      rows.map(({ digest }) => digest),
    ]
    return [{ text: SQL.addRecords, values: [...values] }]
  }

  /** Updates the caches after the block was written. */
  #advance(block: Block, frontier: Frontier, effects: readonly Effect[]): void {
    this.#head = headOf(block)
    this.#lastMs = this.#head.timestamp
    this.#frontier = frontier
    this.#items.clear()
    const isDeletion = effects.some(({ kind }) => kind === 'delete_db')
    this.#isPurgeDue ||= isDeletion
    this.#isCompactionDue ||= effects.some(({ kind }) => kind === 'erase_item')
    for (const { kind, db, position } of effects) {
      if (kind === 'create_db') this.#databases.set(db, position)
      if (kind === 'delete_db') this.#databases.set(db, null)
    }
    // The declarations are read again if some were removed with their databases.
    const indexes = isDeletion ? '' : (this.#cached?.indexes ?? '')
    this.#cached = { headId: block.id, indexes }
  }

  /** Returns databases by name, from the cache as far as possible. */
  async #namedDatabases(names: readonly string[]): Promise<ReadonlyMap<string, number | null>> {
    const missing = names.filter((name) => !this.#databases.has(name))
    if (missing.length > 0) {
      const found = await readDatabases(this.#session, missing)
      for (const [name, created] of found) this.#databases.set(name, created)
    }
    return this.#databases
  }

  #requireNext(block: Block): void {
    const height = this.#head === null ? 0 : this.#head.height + 1
    const follows = block.height === height && block.prevId === (this.#head?.id ?? null)
    if (block.serverId === this.serverId && follows) return
    throw new StoreError('HEAD_MOVED', `block ${block.height} does not follow the head`)
  }

  /** Runs `work` in a transaction that has locked the store. */
  async #transact<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      await retrying(() => this.#begin())
      const result = await work()
      await this.#session.commit()
      return result
    } finally {
      this.#cached = null
      await this.#session.rollback()
    }
  }

  async #changeIndex(db: string, path: string, change: 'add' | 'remove'): Promise<IndexOutcome> {
    this.#refuseAfterFailure()
    return this.#toStoreError(() =>
      this.#transact(async () => {
        const database = (await this.#namedDatabases([db])).get(db)
        if (typeof database !== 'number') return 'no-database'
        this.#isIndexWorkDue = true
        return changeIndex(this.#session, { database, path }, change)
      }),
    )
  }

  /** Removes some items of a deleted database, then of its history; returns whether more may remain. */
  async #purgeDropped(): Promise<boolean> {
    const [row] = await this.#session.rows(SQL.dropped, [])
    if (row === undefined) return false
    const values = [Number(row[0])]
    const purge = async (sql: string) =>
      Number((await this.#session.rows(sql, [...values, PURGE_ROWS]))[0]?.[0])
    const items = await purge(SQL.purgeItems)
    const rows = items === PURGE_ROWS ? items : await purge(SQL.purgeHistory)
    if (rows < PURGE_ROWS) await this.#session.rows(SQL.removeDropped, values)
    return true
  }

  #hasExpiredRecords(): boolean {
    const oldest = this.#oldestRecordMs
    return oldest !== null && this.#lastMs - oldest >= IDEMPOTENCY_RECORDS_KEPT_MS
  }

  async #readOldestRecord(): Promise<number | null> {
    const [row] = await this.#session.rows(SQL.oldestRecord, [])
    return row === undefined ? null : Number(row[0])
  }

  #refuseAfterFailure(): void {
    if (this.#failure !== null) throw this.#failure
  }

  async #toStoreError<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work()
    } catch (error) {
      const converted = storeErrorOf(error)
      if (converted instanceof StoreError && converted.code === 'STORE_ROLLED_BACK') {
        this.#failure = converted
      }
      throw converted
    }
  }
}

export interface PostgresStoreOptions {
  readonly url: string
  readonly serverId: number
  /** False for a temporary store, for which a server without durability is accepted. */
  readonly durable: boolean
}

/**
 * Opens a database for writing, creating the tables if they are missing.
 * Errors: STORE_FOREIGN, STORE_TOO_NEW, STORE_UNSAFE, STORE_UNAVAILABLE.
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const { url, serverId, durable } = options
  let connection: Connection | null = null
  try {
    const first = await retrying(() => Connection.open({ url, durable }))
    connection = first
    await retrying(() => prepareSchema(first, serverId))
    const session = new WriteSession({ url, durable }, first)
    const store = new PostgresStore(session, serverId, { url, durable })
    await store.begin()
    return store
  } catch (error) {
    await connection?.close()
    throw storeErrorOf(error)
  }
}
