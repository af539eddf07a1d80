import { closeSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { type Block, type Head, headOf } from '../../chain/index.ts'
import type { Effect } from '../effect.ts'
import {
  DamageError,
  damageText,
  EffectError,
  isNoRoom,
  isReadDamage,
  StoreError,
} from '../errors.ts'
import type { NewIdempotencyRecord } from '../idempotency-record.ts'
import type { IndexOutcome, Store } from '../store.ts'
import { attachmentApplier } from './attachments.ts'
import { ErasureRows } from './erasures.ts'
import { SupersededRows } from './history.ts'
import { AnswerRows } from './idempotency.ts'
import { Indexes } from './indexes.ts'
import { LogIndex, PAGES_OF_UPKEEP, PAGES_TOGETHER, pagesOf } from './log-index.ts'
import { connect, SqliteReader } from './reader.ts'
import { NO_VIEW } from './reads.ts'
import { headOfRow, integerOf } from './rows.ts'
import { prepareSchema } from './schema.ts'
import { LIMIT, Query } from './statements.ts'
import { TreeRows } from './tree-rows.ts'
import { lengthenLog, rewriteWal } from './wal.ts'
import { WalCheckpointer } from './wal-checkpointer.ts'

/** Page cache of the writing connection, KiB. */
const CACHE_KIB = 16_384
/** The write-ahead log is folded into the file when it holds this many pages of 4 KiB. */
const LOG_PAGES = 4_096
/** Rows of deleted databases removed by one `tidy`, of each kind. */
const PURGE_ROWS = 500

/** How to open the writing half. */
export interface SqliteStoreOptions {
  /** The database file; made when it is missing. */
  readonly path: string
  /** Whose store it is. */
  readonly serverId: number
  /** False for a store that is thrown away: nothing waits for the disk. */
  readonly durable: boolean
}

/** The engine on SQLite: one file, a write-ahead log, one transaction per block. */
class SqliteStore extends SqliteReader implements Store {
  readonly #statements: ReturnType<typeof prepare>
  /** Names to creation positions, as in table `databases`: only this connection changes it. */
  readonly #databases = new Map<string, number>()
  readonly #superseded: SupersededRows
  readonly #answers: AnswerRows
  readonly #fold: WalCheckpointer
  readonly #logIndex: LogIndex
  readonly #indexes: Indexes
  /** Of a log that is lengthened; null where nothing waits for the disk. */
  readonly #logPath: string | null
  readonly #tree: TreeRows
  readonly #erasures: ErasureRows
  #head: Head | null
  /** Made when it is first needed. */
  #applyAttachment: ReturnType<typeof attachmentApplier> | null = null
  #purging = true
  #appended = false
  /** While several appends share one transaction. */
  #together = false
  /** What is being applied: an error names it. */
  #applying: Effect | null = null
  /** Whether the log's file was truncated and is to be lengthened again. */
  #isLogShort = false
  readonly #path: string
  /**
   * The first failure after which nobody knows what is on the disk. Nothing is written after it: a sync
   * that is tried again reports success for pages that were dropped. Opening the store writes them anew.
   */
  #failure: StoreError | null = null

  constructor(database: DatabaseSync, path: string, logPath: string | null) {
    super(database, NO_VIEW)
    this.#logIndex = new LogIndex(path)
    this.#logPath = logPath
    this.#path = path
    this.#fold = new WalCheckpointer(path)
    this.#tree = new TreeRows(database)
    this.#erasures = new ErasureRows(database)
    this.#statements = prepare(database)
    this.#superseded = new SupersededRows(database)
    this.#answers = new AnswerRows(database)
    this.#indexes = new Indexes(database)
    const head = this.#statements.head.get()
    this.#head = head === undefined ? null : headOfRow(head)
    this.#readDatabases()
  }

  async append(
    block: Block,
    effects: readonly Effect[],
    answers: readonly NewIdempotencyRecord[] = [],
  ): Promise<void> {
    this.#refuseUnlessNext(block)
    this.#begin(pagesOf(block))
    let isCommitting = false
    try {
      this.#insertBlock(block)
      this.#tree.add(block)
      for (const effect of effects) this.#apply(effect)
      this.#applying = null
      for (const answer of answers) this.#answers.keep(block, answer)
      isCommitting = true
      // Before this line a crash leaves nothing of the block; after it, all of it. With
      // synchronous=FULL it returns when the log is on the disk.
      this.#commit()
    } catch (error) {
      const refused = this.#refusal(error, this.#applying, isCommitting)
      this.#undo()
      throw refused
    }
    this.#head = headOf(block)
    this.#appended = true
  }

  async transaction(appends: () => Promise<void>): Promise<void> {
    this.#begin(PAGES_TOGETHER)
    this.#together = true
    try {
      await appends()
      this.connection.exec('COMMIT')
    } catch (error) {
      const refused =
        error instanceof Error && 'errcode' in error ? this.#refusal(error, null, true) : error
      this.#undo()
      throw refused
    } finally {
      this.#together = false
    }
  }

  async maintain(): Promise<boolean> {
    this.#refuseAfterFailure()
    try {
      return this.#tidy()
    } catch (error) {
      throw this.#refusal(error, null)
    }
  }

  #tidy(): boolean {
    // Commits do not fold the log (wal_autocheckpoint is off), so that none of them is the slow one:
    // another thread does most of it. Then this connection folds the little that came meanwhile, and
    // the next commit starts the log anew.
    if (this.#fold.takeFolded()) this.connection.exec('PRAGMA wal_checkpoint(PASSIVE)')
    else if (this.#appended && this.#logPages() >= LOG_PAGES) this.#fold.start()
    this.#appended = false
    const compacting = this.#erasures.isCompactionDue && this.#compact()
    if (this.#isLogShort && this.#logPath !== null) lengthenLog(this.#logPath)
    this.#isLogShort = false
    if (this.#purging) this.#purging = this.#purge()
    if (this.#indexes.isWaiting) this.#transact(() => this.#indexes.work())
    return this.#expire() || compacting || this.#purging || this.#indexes.isWaiting
  }

  async addIndex(db: string, path: string): Promise<IndexOutcome> {
    const database = this.#databases.get(db)
    if (database === undefined) return 'no-database'
    return this.#transact(() => this.#indexes.add(database, path))
  }

  async removeIndex(db: string, path: string): Promise<IndexOutcome> {
    const database = this.#databases.get(db)
    if (database === undefined) return 'no-database'
    return this.#transact(() => this.#indexes.remove(database, path))
  }

  /**
   * Closes the store. The last connection that is closed folds the log and removes it; after a failure the
   * log must stay for the next start, because it may have the only copy of pages that look folded. Then a
   * connection is closed last that can only read.
   */
  override async close(): Promise<void> {
    await this.#fold.close()
    const hasFailed = this.#failure !== null || this.#fold.failure !== null
    const last = hasFailed ? connect(this.#path) : null
    await super.close()
    last?.close()
  }

  /** True when it is to be tried again: a reader still looks at what was. */
  #compact(): boolean {
    const pages = () => integerOf(this.#statements.pages.get() ?? [], 'pages')
    const expectRoom = () => this.#logIndex.expectRoom(pages(), () => this.#logPages())
    if (!this.#erasures.compact(expectRoom)) return true
    this.#isLogShort = true
    return false
  }

  /** What is thrown for `error`; remembers that the store has failed. */
  #refusal(error: unknown, applying: Effect | null, isCommitting = false): StoreError {
    const refusal = storeError(error, applying, isCommitting)
    if (refusal.code === 'STORE_FAILED') this.#failure ??= refusal
    return refusal
  }

  #refuseAfterFailure(): void {
    const failure = this.#failure ?? this.#fold.failure
    if (failure !== null) throw failure
  }

  #logPages(): number {
    const row = this.#statements.log.get()
    return row === undefined ? 0 : integerOf(row.slice(1), 'log')
  }

  #refuseUnlessNext(block: Block): void {
    const height = this.#head === null ? 0 : this.#head.height + 1
    if (
      block.serverId !== this.serverId ||
      block.height !== height ||
      block.prevId !== (this.#head?.id ?? null)
    ) {
      throw new StoreError('HEAD_MOVED', `block ${block.height} does not follow the head`)
    }
  }

  #begin(pages: number): void {
    this.#applying = null
    if (this.#together) return
    this.#refuseAfterFailure()
    try {
      this.#logIndex.expectRoom(pages, () => this.#logPages())
      this.connection.exec('BEGIN IMMEDIATE')
    } catch (error) {
      throw this.#refusal(error, null)
    }
  }

  #commit(): void {
    if (!this.#together) this.connection.exec('COMMIT')
    this.#applying = null
  }

  #insertBlock(block: Block): void {
    this.#statements.block.run(
      block.height,
      block.id,
      block.prevId,
      block.nonce,
      block.root,
      block.entries.join('\n'),
      block.timestamps.join('\n'),
      block.blinds,
      block.commitments,
    )
  }

  #apply(effect: Effect): void {
    const { kind, position, db } = effect
    this.#applying = effect
    if (kind === 'create_db') {
      this.#statements.createDatabase.run(position, db)
      this.#databases.set(db, position)
      return
    }
    if (kind === 'erase_item') {
      // Entries of a deleted database have content too.
      if (!this.#erasures.erase(effect)) throw impossible(effect)
      for (const one of effect.positions) this.#answers.forgetFingerprint(one)
      return
    }
    const database = this.#databases.get(db)
    if (database === undefined) throw impossible(effect)
    switch (kind) {
      case 'delete_db':
        this.#indexes.databaseDeleted(database)
        this.#statements.deleteDatabase.run(database)
        this.#statements.drop.run(database)
        this.#databases.delete(db)
        this.#purging = true
        return
      case 'create_item':
        this.#statements.createItem.run(position, database, effect.id, position, effect.text)
        this.#indexes.created(database, position, effect.text)
        return
      case 'update_item':
        this.#superseded.note(database, effect.id)
        this.#indexes.changing(database, effect.id, effect.text)
        this.#expectOne(
          this.#statements.updateItem.run(position, effect.text, database, effect.id),
          effect,
        )
        return
      case 'delete_item':
        this.#superseded.noteDeletion(database, effect.id, position)
        this.#indexes.changing(database, effect.id, null)
        this.#expectOne(this.#statements.deleteItem.run(database, effect.id), effect)
        return
      case 'erased_attachment':
        return
      case 'create_attachment':
      case 'delete_attachment':
        this.#applyAttachment ??= attachmentApplier(this.connection)
        if (!this.#applyAttachment(database, effect)) throw impossible(effect)
    }
  }

  #expectOne(changes: number, effect: Effect): void {
    if (changes !== 1) throw impossible(effect)
  }

  /** Leaves everything as it was before the append, in the file and in memory. */
  #undo(): void {
    if (this.connection.isTransaction) this.connection.exec('ROLLBACK')
    const head = this.#statements.head.get()
    this.#head = head === undefined ? null : headOfRow(head)
    this.#readDatabases()
    this.#indexes.reload()
    this.#tree.reset()
  }

  #readDatabases(): void {
    this.#databases.clear()
    for (const row of this.connection.prepare('SELECT created, name FROM databases').iterate()) {
      this.#databases.set(String(row.name), Number(row.created))
    }
  }

  /** Removes some answers that need not be kept; says whether more are due. */
  #expire(): boolean {
    const headMs = this.#head?.timestamp ?? 0
    if (!this.#answers.isDue(headMs)) return false
    this.#answers.purge(headMs)
    return this.#answers.isDue(headMs)
  }

  /** Does `work` in a transaction of its own; when it resolves the change is on the disk. */
  #transact<Result>(work: () => Result): Result {
    this.#begin(PAGES_OF_UPKEEP)
    let isCommitting = false
    try {
      const result = work()
      isCommitting = true
      this.connection.exec('COMMIT')
      return result
    } catch (error) {
      const refused = this.#refusal(error, null, isCommitting)
      this.#undo()
      throw refused
    }
  }

  /** Removes some items of a deleted database, then of its history; says whether more are left. */
  #purge(): boolean {
    const row = this.#statements.dropped.get()
    if (row === undefined) return false
    const dropped = integerOf(row, 'db')
    this.#transact(() => {
      const items = this.#statements.purge.run(dropped, PURGE_ROWS)
      const rows = items === PURGE_ROWS ? items : this.#superseded.purge(dropped, PURGE_ROWS)
      // The last rows and the note that they are to go leave together, or both stay for the next time.
      if (rows < PURGE_ROWS) this.#statements.purged.run(dropped)
    })
    return true
  }
}

function prepare(database: DatabaseSync) {
  const query = (sql: string): Query => new Query(database, sql)
  return {
    head: query('SELECT height, id, timestamps FROM blocks ORDER BY height DESC LIMIT 1'),
    block: query(
      `INSERT INTO blocks
        (height, id, prev_id, nonce, root, body, timestamps, blinds, commitments)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    createDatabase: query('INSERT INTO databases (created, name) VALUES (?, ?)'),
    deleteDatabase: query('DELETE FROM databases WHERE created = ?'),
    drop: query('INSERT INTO dropped (db) VALUES (?)'),
    createItem: query('INSERT INTO items (created, db, id, revision, item) VALUES (?, ?, ?, ?, ?)'),
    updateItem: query('UPDATE items SET revision = ?, item = ? WHERE db = ? AND id = ?'),
    deleteItem: query('DELETE FROM items WHERE db = ? AND id = ?'),
    dropped: query('SELECT db FROM dropped LIMIT 1'),
    purge: query(
      `DELETE FROM items WHERE created IN
        (SELECT created FROM items WHERE db = ? ORDER BY created ${LIMIT})`,
    ),
    purged: query('DELETE FROM dropped WHERE db = ?'),
    log: query('PRAGMA wal_checkpoint(NOOP)'),
    pages: query('PRAGMA page_count'),
  }
}

function impossible(effect: Effect, cause?: unknown): StoreError {
  const what = 'id' in effect ? `item ${effect.id} of ${effect.db}` : `database ${effect.db}`
  return new EffectError(effect.position, `${effect.kind} does not fit ${what}`, { cause })
}

const SQLITE_CONSTRAINT = 19

/**
 * What an error of the driver means for the port; `applying` is what was applied when it came. Whatever
 * fails while committing, nobody knows whether it happened: that is no damage that was only met.
 */
function storeError(error: unknown, applying: Effect | null, isCommitting = false): StoreError {
  if (!isCommitting && isReadDamage(error)) {
    return new DamageError(applying?.position ?? null, damageText(error), { cause: error })
  }
  if (error instanceof StoreError) return error
  const code = error instanceof Error && 'errcode' in error ? Number(error.errcode) & 0xff : 0
  const reason = error instanceof Error ? error.message : String(error)
  if (code === SQLITE_CONSTRAINT && applying !== null) return impossible(applying, error)
  if (code === SQLITE_CONSTRAINT) {
    return new StoreError('EFFECT_IMPOSSIBLE', `an effect does not fit: ${reason}`, {
      cause: error,
    })
  }
  if (isNoRoom(error)) {
    return new StoreError('STORE_FULL', 'there is no room left on the disk', { cause: error })
  }
  return new StoreError('STORE_FAILED', `the store failed: ${reason}`, { cause: error })
}

/**
 * Opens the store for writing; the caller holds the folder's lock. When it returns, everything that was
 * recovered from the log is in the file and on the disk, and the log is empty.
 *
 * What a power cut leaves of that, at each point:
 * - while `rewriteWal` writes: each page of the log as it was on the disk, or as it is in memory. All
 *   acknowledged frames are there; of the others the next recovery takes those before the first gap.
 * - after it: the whole log, whatever the disk has of the file. Folding it again gives the same pages.
 * - while the log is folded: the same; it is only truncated when the file was synced.
 * - after that: the whole file. A log that comes back untruncated holds the same pages once more.
 * - while the log is lengthened: zeros, which are no frames.
 *
 * The log is rewritten before the engine sees it, because the engine overwrites pages of the file after a
 * sync of the log that reports success for pages that are not on the disk.
 * Errors: STORE_FOREIGN, STORE_TOO_NEW, STORE_DAMAGED, STORE_FULL.
 */
export function openSqliteStore(options: SqliteStoreOptions): Store {
  const { path, durable } = options
  const logPath = durable ? `${path}-wal` : null
  let database: DatabaseSync | null = null
  try {
    // The log and its index get the mode of the file: what is in there opens every commitment.
    closeSync(openSync(path, 'a', 0o600))
    if (logPath !== null) rewriteWal(logPath)
    database = new DatabaseSync(path)
    database.exec('PRAGMA journal_mode = WAL')
    database.exec(`PRAGMA synchronous = ${durable ? 'FULL' : 'OFF'}`)
    database.exec('PRAGMA wal_autocheckpoint = 0')
    database.exec(`PRAGMA cache_size = -${CACHE_KIB}`)
    // What is deleted is overwritten at once; writing the file anew takes the rest (erasures.ts).
    database.exec('PRAGMA secure_delete = ON')
    prepareSchema(database, path, options.serverId)
    if (logPath !== null) {
      foldAll(database)
      lengthenLog(logPath)
    }
    return new SqliteStore(database, path, logPath)
  } catch (error) {
    if (error instanceof StoreError) {
      database?.close()
      throw error
    }
    closeUnfolded(database, path)
    if (isNoRoom(error)) throw storeError(error, null)
    const reason = error instanceof Error ? error.message : String(error)
    throw new StoreError('STORE_DAMAGED', `${path} cannot be opened: ${reason}`, {
      cause: error,
    })
  }
}

/** Closes a connection after a failure; the log stays for the next start, as in `SqliteStore.close`. */
function closeUnfolded(database: DatabaseSync | null, path: string): void {
  let last: DatabaseSync | null = null
  try {
    last = connect(path)
  } catch {
    // A file that cannot be opened for reading is not folded either.
  }
  database?.close()
  last?.close()
}

/**
 * Folds the whole log into the file, syncs that, and truncates the log. A reader that looks at the old
 * frames keeps the log from being truncated, and a full disk keeps it from being folded: then it stays,
 * all of it durable since `rewriteWal`, and is folded later. Errors: the driver's.
 */
function foldAll(database: DatabaseSync): void {
  try {
    database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  } catch (error) {
    if (!isNoRoom(error)) throw error
  }
}
