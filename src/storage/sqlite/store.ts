import { accessSync, closeSync, constants, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { errorMessage, isDiskFull } from '../../base/errors.ts'
import { inheritOwner } from '../../base/files/durable-files.ts'
import { type Block, type Head, toHead } from '../../chain/index.ts'
import { hasStoreFile, isFolderFull } from '../location/folder.ts'
import type { Effect } from '../port/effect.ts'
import {
  DamageError,
  damageText,
  diskFull,
  inapplicable,
  isReadDamage,
  StoreError,
  sqliteCode,
} from '../port/errors.ts'
import type {
  IndexOutcome,
  NewIdempotencyRecord,
  Store,
  StoredDatabase,
  StoredItem,
} from '../port/store.ts'
import { packBody } from '../sql/body.ts'
import { type Erasure, eraseEntries } from '../sql/erasure.ts'
import { requireNext } from '../sql/next-block.ts'
import { readHeadRow, readInteger } from '../sql/rows.ts'
import { AttachmentRows } from './attachments.ts'
import { FileRewriting } from './file-rewriting.ts'
import { HistoryRows } from './history.ts'
import { IdempotencyRows } from './idempotency.ts'
import { Indexes } from './indexes.ts'
import { connectReadOnly, SqliteReader } from './reader.ts'
import { NO_VIEW, SharedStatements } from './reads.ts'
import { prepareSchema } from './schema.ts'
import { LIMIT, toQueries } from './statements.ts'
import { TreeRows } from './tree-rows.ts'
import {
  estimateFrames,
  MAINTENANCE_FRAMES_MAX,
  requireWalIndexSpace,
  rewriteWal,
  TRANSACTION_FRAMES_MAX,
} from './wal.ts'
import { WalCheckpointer } from './wal-checkpointer.ts'

/** Size of the page cache of the writing connection, KiB. */
const CACHE_KIB = 16_384
/** Number of pages (4 KiB) in the WAL at which a checkpoint starts. */
const CHECKPOINT_FRAMES = 4_096
/** Maximum missing items that are remembered between blocks. */
const ABSENT_MAX = 1_000
/** Maximum items of deleted databases removed by one `maintain`. */
const PURGE_ROWS = 500

const SQL = {
  head: 'SELECT height, id, timestamps FROM blocks ORDER BY height DESC LIMIT 1',
  addBlock: `INSERT INTO blocks
    (height, id, prev_id, nonce, root, body, timestamps, blinds, commitments)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  databases: 'SELECT created, name FROM databases',
  createDatabase: 'INSERT INTO databases (created, name) VALUES (?, ?)',
  deleteDatabase: 'DELETE FROM databases WHERE created = ?',
  createItem: 'INSERT INTO items (created, db, id, revision, item) VALUES (?, ?, ?, ?, ?)',
  updateItem: 'UPDATE items SET revision = ?, item = ? WHERE db = ? AND id = ?',
  deleteItem: 'DELETE FROM items WHERE db = ? AND id = ?',
  addDropped: 'INSERT INTO dropped (db) VALUES (?)',
  addDeleted: 'INSERT INTO deleted_databases (created, name, deleted) VALUES (?, ?, ?)',
  dropped: 'SELECT db FROM dropped LIMIT 1',
  purgeItems: `DELETE FROM items WHERE created IN
    (SELECT created FROM items WHERE db = ? ORDER BY created ${LIMIT})`,
  removeDropped: 'DELETE FROM dropped WHERE db = ?',
  walState: 'PRAGMA wal_checkpoint(NOOP)',
} as const

/** The SQLite engine: one file, a write-ahead log, one transaction per block. */
class SqliteStore extends SqliteReader implements Store {
  readonly isShared = false
  readonly #sql
  /** Creation positions by name, as in table `databases`. */
  readonly #databases = new Map<string, number>()
  /** Items (`itemKey`) that were read and do not exist. Planning reads one of them, that of the network, for each block. */
  readonly #absent = new Set<string>()
  readonly #idempotency: IdempotencyRows
  readonly #attachmentRows: AttachmentRows
  readonly #history: HistoryRows
  readonly #checkpointer: WalCheckpointer
  readonly #indexes: Indexes
  readonly #tree: TreeRows
  readonly #rewriting: FileRewriting
  readonly #shared: SharedStatements
  readonly #path: string
  #head: Head | null
  #isPurgeDue = true
  /** Whether blocks were appended since the last `maintain`. */
  #hasAppended = false
  /** True while several appends share one transaction. */
  #isInTransaction = false
  /** The effect being applied, for error messages. */
  #applying: Effect | null = null
  /**
   * The first failure after which the state of the disk is unknown. Blocks all further writes, because a repeated sync
   * would report success for lost pages. Reopening the store rewrites these pages.
   */
  #failure: StoreError | null = null

  constructor(database: DatabaseSync, path: string) {
    super(database, NO_VIEW)
    this.#path = path
    this.#sql = toQueries(database, SQL)
    this.#checkpointer = new WalCheckpointer(path)
    this.#tree = new TreeRows(database)
    this.#rewriting = new FileRewriting(database)
    this.#shared = new SharedStatements(database)
    this.#idempotency = new IdempotencyRows(database)
    this.#attachmentRows = new AttachmentRows(database)
    this.#history = new HistoryRows(database)
    this.#indexes = new Indexes(database)
    this.#head = this.#readHead()
    this.#readDatabases()
  }

  async append(
    block: Block,
    effects: readonly Effect[],
    records: readonly NewIdempotencyRecord[] = [],
  ): Promise<void> {
    requireNext(block, this.serverId, this.#head)
    this.#begin(estimateFrames(block))
    let isCommitting = false
    try {
      this.#insertBlock(block)
      this.#tree.add(block)
      let erasures: Erasure[] = []
      for (const effect of effects) {
        if (effect.kind === 'erase_item') erasures.push(effect)
        else {
          await this.#erase(erasures)
          erasures = []
          this.#apply(effect)
        }
      }
      await this.#erase(erasures)
      this.#applying = null
      for (const record of records) this.#idempotency.add(block, record)
      isCommitting = true
      // A crash before this line leaves nothing of the block; after this line, the whole block is stored. With
      // synchronous=FULL, the commit returns when the WAL is on disk.
      this.#commit()
    } catch (error) {
      const refused = this.#refusal(error, this.#applying, isCommitting)
      this.#rollback()
      throw refused
    }
    this.#head = toHead(block)
    this.#hasAppended = true
  }

  /** No further lock is needed, because the lock of the folder excludes other processes. */
  exclusive<Result>(work: (head: Head | null) => Promise<Result>): Promise<Result> {
    return work(this.#head)
  }

  override async database(name: string): Promise<StoredDatabase | null> {
    const created = this.#databases.get(name)
    return created === undefined ? null : { name, created }
  }

  override async item(db: string, id: string): Promise<StoredItem | null> {
    const key = itemKey(db, id)
    if (this.#absent.has(key)) return null
    const item = await super.item(db, id)
    if (this.#absent.size === ABSENT_MAX) this.#absent.clear()
    if (item === null) this.#absent.add(key)
    return item
  }

  async transaction(appends: () => Promise<void>): Promise<void> {
    this.#begin(TRANSACTION_FRAMES_MAX)
    this.#isInTransaction = true
    try {
      await appends()
      this.connection.exec('COMMIT')
    } catch (error) {
      const refused = sqliteCode(error) === 0 ? error : this.#refusal(error, null, true)
      this.#rollback()
      throw refused
    } finally {
      this.#isInTransaction = false
    }
  }

  /** Does nothing, because no failover can replace the file. */
  noteSeen(): void {}

  async maintain(): Promise<boolean> {
    this.#refuseAfterFailure()
    try {
      return await this.#maintain()
    } catch (error) {
      throw this.#refusal(error, null)
    }
  }

  async #maintain(): Promise<boolean> {
    // Commits do not checkpoint (wal_autocheckpoint is off), so that no commit is slow. Another thread does most of the
    // work. Then this connection checkpoints the few frames added since, and the next commit restarts the WAL.
    if (this.#checkpointer.takeFinished()) this.connection.exec('PRAGMA wal_checkpoint(PASSIVE)')
    else if (this.#hasAppended && this.#walFrames() >= CHECKPOINT_FRAMES) this.#checkpointer.start()
    this.#hasAppended = false
    if (this.#isPurgeDue) this.#isPurgeDue = await this.#purgeDropped()
    if (this.#indexes.isWorkDue) await this.#transact(() => this.#indexes.work())
    const headMs = this.#head?.timestamp ?? 0
    if (this.#idempotency.hasExpired(headMs)) this.#idempotency.purge(headMs)
    const isMoreDue =
      this.#idempotency.hasExpired(headMs) || this.#isPurgeDue || this.#indexes.isWorkDue
    // Rewrites the file last, because removed rows leave their content in it until the WAL is checkpointed.
    if (isMoreDue || !this.#rewriting.isDue) return isMoreDue
    return !this.#rewriting.run(dirname(this.#path))
  }

  addIndex(db: string, path: string): Promise<IndexOutcome> {
    return this.#changeIndex(db, path, 'add')
  }

  removeIndex(db: string, path: string): Promise<IndexOutcome> {
    return this.#changeIndex(db, path, 'remove')
  }

  async #changeIndex(db: string, path: string, change: 'add' | 'remove'): Promise<IndexOutcome> {
    const database = this.#databases.get(db)
    if (database === undefined) return 'no-database'
    return this.#transact(() => this.#indexes.change(database, path, change))
  }

  /**
   * Closes the store. When its last connection closes, SQLite checkpoints the WAL and removes it. After a failure, the
   * WAL must stay for the next start, because it may have the only copy of pages that seem to be checkpointed. In this
   * case, a read-only connection, which cannot checkpoint, is closed last.
   */
  override async close(): Promise<void> {
    await this.#checkpointer.close()
    const hasFailed = this.#failure !== null || this.#checkpointer.failure !== null
    const last = hasFailed ? connectReadOnly(this.#path) : null
    await super.close()
    last?.close()
  }

  #requireSpace(frames: number): void {
    requireWalIndexSpace(this.#path, frames, () => this.#walFrames())
  }

  /** Converts an error. If the result is STORE_FAILED, blocks all further writes. */
  #refusal(error: unknown, applying: Effect | null, isCommitting = false): StoreError {
    const refusal = storeError(error, applying, isCommitting)
    if (refusal.code === 'STORE_FAILED') this.#failure ??= refusal
    return refusal
  }

  #refuseAfterFailure(): void {
    const failure = this.#failure ?? this.#checkpointer.failure
    if (failure !== null) throw failure
  }

  #walFrames(): number {
    const row = this.#sql.walState.get()
    return row === undefined ? 0 : readInteger(row.slice(1), 'log')
  }

  #begin(frames: number): void {
    this.#applying = null
    if (this.#isInTransaction) return
    this.#refuseAfterFailure()
    try {
      this.#requireSpace(frames)
      this.connection.exec('BEGIN IMMEDIATE')
    } catch (error) {
      throw this.#refusal(error, null)
    }
  }

  #commit(): void {
    if (!this.#isInTransaction) this.connection.exec('COMMIT')
    this.#applying = null
  }

  #insertBlock(block: Block): void {
    this.#sql.addBlock.run(
      block.height,
      block.id,
      block.prevId,
      block.nonce,
      block.root,
      packBody(block.entries),
      block.timestamps.join('\n'),
      block.blinds,
      block.commitments,
    )
  }

  /** Erasures succeed even in deleted databases, whose entries still have content. */
  async #erase(erasures: readonly Erasure[]): Promise<void> {
    if (erasures.length === 0) return
    const onErasure = (erasure: Erasure) => {
      this.#applying = erasure
    }
    const hadContent = await eraseEntries(this.#shared, erasures, { toBody: packBody, onErasure })
    if (hadContent) this.#rewriting.contentErased()
  }

  #apply(effect: Exclude<Effect, { kind: 'erase_item' }>): void {
    const { kind, position, db } = effect
    this.#applying = effect
    if (kind === 'create_db') {
      this.#sql.createDatabase.run(position, db)
      this.#databases.set(db, position)
      return
    }
    const database = this.#databases.get(db)
    if (database === undefined) throw inapplicable(effect)
    switch (kind) {
      case 'delete_db':
        this.#indexes.databaseDeleted(database)
        this.#sql.deleteDatabase.run(database)
        this.#sql.addDropped.run(database)
        this.#sql.addDeleted.run(database, db, position)
        this.#databases.delete(db)
        this.#isPurgeDue = true
        return
      case 'create_item':
        this.#absent.delete(itemKey(db, effect.id))
        this.#sql.createItem.run(position, database, effect.id, position, effect.text)
        this.#indexes.itemCreated(database, position, effect.text)
        return
      case 'update_item':
        this.#history.addCurrent(database, effect.id)
        this.#indexes.itemChanging(database, effect.id, effect.text)
        requireOne(this.#sql.updateItem.run(position, effect.text, database, effect.id), effect)
        return
      case 'delete_item':
        this.#history.addDeletion(database, effect.id, position)
        this.#indexes.itemChanging(database, effect.id, null)
        requireOne(this.#sql.deleteItem.run(database, effect.id), effect)
        return
      case 'erased_attachment':
        return
      case 'create_attachment':
      case 'delete_attachment':
        if (!this.#attachmentRows.apply(database, effect)) throw inapplicable(effect)
    }
  }

  /** Restores the state before the transaction, in the file and in memory. */
  #rollback(): void {
    if (this.connection.isTransaction) this.connection.exec('ROLLBACK')
    this.#head = this.#readHead()
    this.#readDatabases()
    this.#absent.clear()
    this.#indexes.reset()
    this.#tree.reset()
  }

  #readHead(): Head | null {
    const row = this.#sql.head.get()
    return row === undefined ? null : readHeadRow(row)
  }

  #readDatabases(): void {
    this.#databases.clear()
    for (const [created, name] of this.#sql.databases.iterate()) {
      this.#databases.set(String(name), Number(created))
    }
  }

  /** Runs `work` in a separate transaction, which is durable when this returns. */
  async #transact<Result>(work: () => Result | Promise<Result>): Promise<Result> {
    this.#begin(MAINTENANCE_FRAMES_MAX)
    let isCommitting = false
    try {
      const result = await work()
      isCommitting = true
      this.connection.exec('COMMIT')
      return result
    } catch (error) {
      const refused = this.#refusal(error, null, isCommitting)
      this.#rollback()
      throw refused
    }
  }

  /** Moves some items of a deleted database to its history; returns whether more may remain. */
  async #purgeDropped(): Promise<boolean> {
    const row = this.#sql.dropped.get()
    if (row === undefined) return false
    const dropped = readInteger(row, 'db')
    await this.#transact(() => {
      this.#history.addOldest(dropped, PURGE_ROWS)
      const items = this.#sql.purgeItems.run(dropped, PURGE_ROWS)
      if (items < PURGE_ROWS) this.#sql.removeDropped.run(dropped)
    })
    return true
  }
}

function itemKey(db: string, id: string): string {
  return `${db}/${id}`
}

function requireOne(changes: number, effect: Effect): void {
  if (changes !== 1) throw inapplicable(effect)
}

const SQLITE_CONSTRAINT = 19

/**
 * Converts an error of the driver; `applying` is the effect that was being applied. A failure while
 * committing leaves the outcome unknown, so it is never reported as damage.
 */
function storeError(error: unknown, applying: Effect | null, isCommitting = false): StoreError {
  if (!isCommitting && isReadDamage(error)) {
    return new DamageError(applying?.position ?? null, damageText(error), { cause: error })
  }
  if (error instanceof StoreError) return error
  const code = sqliteCode(error) & 0xff
  const reason = errorMessage(error)
  if (code === SQLITE_CONSTRAINT) {
    if (applying !== null) return inapplicable(applying, error)
    const message = `an effect does not apply: ${reason}`
    return new StoreError('EFFECT_IMPOSSIBLE', message, { cause: error })
  }
  if (isDiskFull(error)) return diskFull(error)
  return new StoreError('STORE_FAILED', `the store failed: ${reason}`, { cause: error })
}

export interface SqliteStoreOptions {
  /** The database file; created if it is missing. */
  readonly path: string
  readonly serverId: number
  /** False for a temporary store, which is never synced. */
  readonly durable: boolean
}

/**
 * Opens the store for writing; the caller holds the folder's lock. When it returns, everything recovered from the WAL
 * is in the file and on disk, and the WAL is empty.
 *
 * State after a power cut:
 * - during `rewriteWal`: each page of the WAL is as it was on disk, or as in memory. All acknowledged frames are
 *   intact; of the other frames the next recovery accepts those before the first gap.
 * - after `rewriteWal`: the WAL is complete, whatever state the file is in. Checkpointing again writes the same pages.
 * - during the checkpoint: the WAL is complete, because it is only truncated after the file was synced.
 * - after the checkpoint: the file is complete. A WAL that reappears untruncated contains the same pages.
 *
 * The WAL is rewritten before SQLite opens it. Otherwise a checkpoint could overwrite pages of the file after a sync of
 * the WAL that reported success, although pages of the WAL are not on disk.
 * Errors: STORE_FOREIGN, STORE_FORMAT, STORE_DAMAGED, STORE_FULL.
 */
export function openSqliteStore({ path, serverId, durable }: SqliteStoreOptions): Store {
  let database: DatabaseSync | null = null
  try {
    // The WAL and its index inherit the mode of the file, which must be private because the file contains all blinds. An
    // existing file is not opened here: closing it would end the locks of a reader of this process (fcntl), and another
    // process that reads the store could then remove the WAL.
    if (hasStoreFile(path)) accessSync(path, constants.W_OK)
    else closeSync(openSync(path, 'a', 0o600))
    inheritOwner(path)
    if (durable) rewriteWal(`${path}-wal`)
    database = new DatabaseSync(path)
    database.exec('PRAGMA journal_mode = WAL')
    database.exec(`PRAGMA synchronous = ${durable ? 'FULL' : 'OFF'}`)
    database.exec('PRAGMA wal_autocheckpoint = 0')
    database.exec(`PRAGMA cache_size = -${CACHE_KIB}`)
    // Overwrites deleted content at once. Rewriting the file removes other copies of the content (file-rewriting.ts).
    database.exec('PRAGMA secure_delete = ON')
    prepareSchema(database, path, serverId)
    if (durable) checkpointAll(database)
    return new SqliteStore(database, path)
  } catch (error) {
    if (error instanceof StoreError) {
      database?.close()
      throw error
    }
    closeWithoutCheckpoint(database, path)
    if (isFolderFull(error, dirname(path))) throw diskFull(error)
    const reason = errorMessage(error)
    throw new StoreError('STORE_DAMAGED', `${path} cannot be opened: ${reason}`, {
      cause: error,
    })
  }
}

/** Closes a connection after a failure, and keeps the WAL for the next start, as in `SqliteStore.close`. */
function closeWithoutCheckpoint(database: DatabaseSync | null, path: string): void {
  let last: DatabaseSync | null = null
  try {
    last = connectReadOnly(path)
  } catch {
    // A file that cannot be opened for reading is not checkpointed either.
  }
  database?.close()
  last?.close()
}

/**
 * Checkpoints the whole WAL, syncs the file and truncates the WAL. A reader of old frames prevents the truncation, and
 * a full disk prevents the checkpoint. In both cases, the WAL, which is durable since `rewriteWal`, is checkpointed
 * later.
 * Errors: errors of the driver.
 */
function checkpointAll(database: DatabaseSync): void {
  try {
    database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  } catch (error) {
    if (!isDiskFull(error)) throw error
  }
}
