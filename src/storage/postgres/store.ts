import { type Block, type Frontier, frontierAt, type Head, toHead } from '../../chain/index.ts'
import type { Effect } from '../port/effect.ts'
import { StoreError } from '../port/errors.ts'
import type {
  IndexOutcome,
  NewIdempotencyRecord,
  Store,
  StoredDatabase,
  StoredItem,
} from '../port/store.ts'
import {
  changeIndex,
  digestIndexes,
  type Index,
  readIndexes,
  withoutDatabases,
} from '../sql/indexes.ts'
import { requireNext } from '../sql/next-block.ts'
import { type Appended, blockStatements } from './block-statements.ts'
import { itemKey, readDatabases } from './changes.ts'
import { Connection, type ConnectionOptions } from './connection.ts'
import { isConstraint, toStoreError } from './errors.ts'
import { Maintenance } from './maintenance.ts'
import { PostgresReader } from './reader.ts'
import { Attempts, retrying } from './retry.ts'
import { prepareSchema } from './schema.ts'
import { CommitUnknown, type Locked, WriteSession } from './transaction.ts'

/** Maximum number of databases, and of items, that are cached between blocks. */
const REMEMBERED_MAX = 10_000
/** Lets an import pause between two blocks for longer than IDLE_IN_TRANSACTION_MS_MAX. */
const PATIENT = "SET LOCAL idle_in_transaction_session_timeout = '10min'"

/**
 * The PostgreSQL engine: one transaction per block, which locks the store first, or in its only round trip if this
 * process is alone. Several processes may write one store.
 *
 * After a crash of this process or the loss of its connection:
 * - before COMMIT arrives: the server rolls back; nothing of the block is stored.
 * - after COMMIT: the server stores the whole block. If only the answer was lost, `append` finds the block by its id,
 *   whose bytes were fixed before the first COMMIT was sent.
 */
class PostgresStore extends PostgresReader implements Store {
  readonly isShared = true
  readonly #session: WriteSession
  readonly #maintenance: Maintenance
  /** The head and the digest of the indexes for which the fields below are valid, or null if these are unknown. */
  #cached: Locked | null = null
  #frontier: Frontier | null = null
  #indexes: readonly Index[] = []
  readonly #databases = new Map<string, number | null>()
  /** Items that were read in transactions and have not changed since; null for ids without an item. */
  readonly #items = new Map<string, { created: number; revision: number } | null>()
  #isExclusive = false
  /** Whether the last transaction found the store as this process had left it. Then the next block expects the same. */
  #isAlone = false
  /** True while several appends share one transaction. */
  #isShared = false
  /** The STORE_ROLLED_BACK error after which the store never writes again, or null. */
  #failure: StoreError | null = null

  constructor(session: WriteSession, serverId: number, options: ConnectionOptions) {
    super(serverId, session, () => session.close())
    this.#session = session
    this.#maintenance = new Maintenance(session, options)
  }

  /** Reads the pending work of earlier runs. */
  begin(): Promise<void> {
    return this.#maintenance.begin()
  }

  noteSeen(head: Pick<Head, 'height' | 'id'>): void {
    this.#session.noteSeen(head)
  }

  override async database(name: string): Promise<StoredDatabase | null> {
    if (!this.#isExclusive) return super.database(name)
    const created = (await this.#namedDatabases([name])).get(name)
    return typeof created === 'number' ? { name, created } : null
  }

  override async item(db: string, id: string): Promise<StoredItem | null> {
    const database = this.#isExclusive ? this.#databases.get(db) : undefined
    if (typeof database !== 'number') return super.item(db, id)
    const key = itemKey(database, id)
    if (this.#items.get(key) === null) return null
    const item = await super.item(db, id)
    this.#items.set(key, item && { created: item.created, revision: item.revision })
    return item
  }

  async exclusive<Result>(work: (head: Head | null) => Promise<Result>): Promise<Result> {
    try {
      return await this.#guarded(async () => {
        const { head } = this.#expected() ?? (await retrying(() => this.#begin()))
        this.#isExclusive = true
        const result = await work(head)
        await this.#session.confirm()
        return result
      })
    } catch (error) {
      this.#isAlone = false
      throw error
    } finally {
      this.#isExclusive = false
      await this.#session.rollback()
    }
  }

  async append(
    block: Block,
    effects: readonly Effect[],
    records: readonly NewIdempotencyRecord[] = [],
  ): Promise<void> {
    await this.#guarded(async () => {
      const appended = { block, effects, records }
      if (this.#isShared) await this.#appendShared(appended)
      else await this.#commit(appended)
      this.#maintenance.blockStored(block, effects, records.length > 0)
    })
  }

  async transaction(appends: () => Promise<void>): Promise<void> {
    await this.#guarded(async () => {
      await retrying(() => this.#begin())
      await this.#session.rows(PATIENT, [])
      const before = this.#cached?.head
      this.#isShared = true
      try {
        await appends()
        const last = this.#cached?.head
        if (last && last.id !== before?.id) await this.#commitShared(last)
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

  override async close(): Promise<void> {
    await this.#maintenance.close()
    await super.close()
  }

  async maintain(): Promise<boolean> {
    return this.#guarded(async () => {
      const head = this.#cached === null ? await this.head(this.serverId) : this.#cached.head
      return this.#maintenance.step(head?.timestamp ?? 0, (work) => this.#transact(work))
    })
  }

  /** Expects that no other process has changed the store, if that is likely. Returns the state, otherwise null. */
  #expected(): Locked | null {
    const isSmall = Math.max(this.#databases.size, this.#items.size) <= REMEMBERED_MAX
    if (!this.#isAlone || !isSmall || this.#cached === null) return null
    return this.#session.expect(this.#cached) ? this.#cached : null
  }

  /** Begins a transaction; discards cached state that another process may have changed. */
  async #begin(): Promise<Locked> {
    const locked = await this.#session.begin()
    const cached = this.#cached
    this.#isAlone = cached !== null && cached.head?.id === locked.head?.id
    if (!this.#isAlone) this.#frontier = null
    if (!this.#isAlone || this.#databases.size > REMEMBERED_MAX) this.#databases.clear()
    if (!this.#isAlone || this.#items.size > REMEMBERED_MAX) this.#items.clear()
    this.#cached = null
    if (cached?.indexes !== locked.indexes) this.#indexes = await this.#readIndexes(locked)
    this.#cached = locked
    return locked
  }

  async #readIndexes(locked: Locked): Promise<readonly Index[]> {
    const indexes = await readIndexes(this.#session)
    if (digestIndexes(indexes) !== locked.indexes) {
      throw new StoreError('STORE_DAMAGED', 'the indexes differ from their declarations')
    }
    this.#maintenance.indexesChanged(indexes)
    return indexes
  }

  /** Appends a block in a separate transaction, or in the transaction of `exclusive`. */
  async #commit(appended: Appended): Promise<void> {
    const { block } = appended
    const attempts = new Attempts()
    let isCareful = false
    let isUnknown = false
    // Whether the statements of an attempt without the lock may still arrive at the server.
    let isUnderway = false
    for (;;) {
      try {
        if (!this.#session.isInTransaction && !this.#session.isExpecting) await this.#begin()
        if (isUnknown && (await this.#session.blockId(block.height)) === block.id) {
          // The block is stored, but a standby might lack it. The lock of this transaction is after the block in the
          // server's log, so the acknowledgment of this commit, also by the standbys, covers the block.
          await this.#session.commit()
          this.#session.pin(block)
          return
        }
        // This transaction has the lock, so an attempt with the lock has ended, and has not stored the block.
        isUnknown = isUnderway
        requireNext(block, this.serverId, this.#cached?.head ?? null)
        const { statements, frontier } = await this.#statements(appended, isCareful)
        await this.#session.commit(statements)
        this.#session.pin(block)
        this.#advance(appended, frontier)
        return
      } catch (error) {
        isUnknown ||= error instanceof CommitUnknown
        isUnderway ||= error instanceof CommitUnknown && this.#session.isExpecting
        await this.#session.rollback()
        this.#cached = null
        // Another process has appended, or a row exists that must not exist. The next attempt has the lock and is
        // careful, and finds the effect that does not apply.
        if (isConstraint(error) && !isCareful) isCareful = true
        else await pause(attempts, error, isUnknown)
      }
    }
  }

  async #appendShared(appended: Appended): Promise<void> {
    requireNext(appended.block, this.serverId, this.#cached?.head ?? null)
    const { statements, frontier } = await this.#statements(appended, true)
    await this.#session.run(statements)
    this.#advance(appended, frontier)
  }

  /** Commits the blocks of `transaction`. `last` is the head after these blocks. */
  async #commitShared(last: Head): Promise<void> {
    const attempts = new Attempts()
    let isUnknown = false
    for (;;) {
      try {
        if (isUnknown) await this.#begin()
        const isStored = !isUnknown || (await this.#session.blockId(last.height)) === last.id
        await this.#session.commit()
        if (!isStored) break
        this.#session.pin(last)
        return
      } catch (error) {
        await this.#session.rollback()
        this.#cached = null
        isUnknown ||= error instanceof CommitUnknown
        await pause(attempts, error, isUnknown)
      }
    }
    throw new StoreError('STORE_UNAVAILABLE', 'nothing was stored: the connection was lost')
  }

  async #statements(appended: Appended, careful: boolean) {
    const names = new Set(appended.effects.map(({ db }) => db))
    const { serverId } = this
    this.#frontier ??= await frontierAt(appended.block.height, (nodes) =>
      this.treeNodes(serverId, nodes),
    )
    const before = {
      frontier: this.#frontier,
      databases: await this.#namedDatabases([...names]),
      items: this.#items,
      indexes: this.#indexes,
      digest: this.#cached?.indexes ?? '',
    }
    return blockStatements(this.#session, appended, before, careful)
  }

  /** Updates the cached state after a block. */
  #advance({ block, effects }: Appended, frontier: Frontier): void {
    this.#frontier = frontier
    const dropped: number[] = []
    for (const effect of effects) {
      const { kind, db, position } = effect
      if ('id' in effect) this.#items.delete(itemKey(this.#databases.get(db) ?? -1, effect.id))
      if (kind === 'delete_db') dropped.push(this.#databases.get(db) ?? -1)
      if (kind === 'create_db') this.#databases.set(db, position)
      if (kind === 'delete_db') this.#databases.set(db, null)
    }
    let indexes = this.#cached?.indexes ?? ''
    if (dropped.length > 0) {
      this.#indexes = withoutDatabases(this.#indexes, dropped)
      indexes = digestIndexes(this.#indexes)
    }
    this.#cached = { head: toHead(block), indexes }
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
    return this.#guarded(async () => {
      const outcome = await this.#transact(async () => {
        const database = (await this.#namedDatabases([db])).get(db)
        if (typeof database !== 'number') return 'no-database'
        return changeIndex(this.#session, { database, path }, change)
      })
      this.#maintenance.indexesChanged(await readIndexes(this.#session))
      return outcome
    })
  }

  /** Runs `work` unless the store has failed permanently, and converts its errors. */
  async #guarded<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#failure !== null) throw this.#failure
    try {
      return await work()
    } catch (error) {
      const converted = toStoreError(error)
      if (converted instanceof StoreError && converted.code === 'STORE_ROLLED_BACK') {
        this.#failure = converted
      }
      throw converted
    }
  }
}

/**
 * Waits before the next attempt. Without further attempts, throws OUTCOME_UNKNOWN if `isUnknown`, otherwise `error`.
 */
async function pause(attempts: Attempts, error: unknown, isUnknown: boolean): Promise<void> {
  try {
    await attempts.after(error)
  } catch (last) {
    const code = last instanceof StoreError ? last.code : null
    // A block that does not follow the head cannot be stored later.
    if (!isUnknown || code === 'HEAD_MOVED' || code === 'STORE_ROLLED_BACK') throw last
    const message = 'the database did not confirm whether the block is stored'
    throw new StoreError('OUTCOME_UNKNOWN', message, { cause: last })
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
 * Errors: STORE_FOREIGN, STORE_FORMAT, STORE_UNSAFE, STORE_UNAVAILABLE.
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
    throw toStoreError(error)
  }
}
