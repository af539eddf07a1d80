import { statSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import {
  type Block,
  HASH_BYTES,
  type Head,
  type Header,
  nodePlace,
  type TreeNode,
} from '../../chain/index.ts'
import type { Where } from '../../filter/index.ts'
import { requireStoreFile } from '../location/folder.ts'
import { StoreError } from '../port/errors.ts'
import type {
  CountedItems,
  Creations,
  DiskUsage,
  FoundItems,
  IdempotencyRecord,
  ItemRange,
  ItemRow,
  ItemSearch,
  RevisionRange,
  StoredDatabase,
  StoredIndex,
  StoredItem,
  StoredRevision,
  StoreReader,
} from '../port/store.ts'
import { indexOf } from '../search/declared-indexes.ts'
import { countItems, searchItems } from '../search/search.ts'
import {
  blockOf,
  bytesOf,
  databaseOf,
  headerOfRow,
  headOfRow,
  idempotencyRecordOf,
  integerOf,
  itemOf,
  page,
  positionsOf,
  type Row,
} from '../sql/rows.ts'
import { STRAY_ROWS } from '../sql/stray-rows.ts'
import { SqliteAttachments } from './attachments.ts'
import { CreationReader } from './creations.ts'
import { History } from './history.ts'
import { IDEMPOTENCY_COLUMNS } from './idempotency.ts'
import { indexDamage, LIST_INDEXES } from './indexes.ts'
import { NO_VIEW, Reads, type View, viewPerIteration } from './reads.ts'
import { readOwner, requireStore } from './schema.ts'
import { SqliteSearchRows } from './search-rows.ts'
import { LIMIT, Query, queriesOf, StatementCache } from './statements.ts'

/** Size of the page cache of a reading connection, KiB. */
const CACHE_KIB = 8_192
/** Maximum wait for a lock. Readers of a WAL wait for a lock only while the WAL is being set up. */
const BUSY_TIMEOUT_MS = 5_000

const SQL = {
  databases: 'SELECT created, name FROM databases ORDER BY created',
  database: 'SELECT created, name FROM databases WHERE name = ?',
  item: `SELECT id, created, revision, item FROM items
    WHERE db = (SELECT created FROM databases WHERE name = ?) AND id = ?`,
  // SQLite takes the length from the header of the row.
  itemBytes: `SELECT octet_length(item) FROM items
    WHERE db = (SELECT created FROM databases WHERE name = ?) AND id = ?`,
  ids: `SELECT id, created, revision FROM items
    WHERE db = ? AND created > ? ORDER BY created ${LIMIT} OFFSET ?`,
  items: `SELECT id, created, revision, item FROM items
    WHERE db = ? AND created > ? ORDER BY created ${LIMIT} OFFSET ?`,
  countItems: 'SELECT count(*) FROM items WHERE db = ?',
  countIds: `SELECT count(*) FROM items INDEXED BY items_by_id
    WHERE db = ? AND id >= ? AND id < ?`,
  dropped: 'SELECT db FROM dropped ORDER BY db',
  deleted: 'SELECT created, name FROM deleted_databases ORDER BY created',
  former: 'SELECT created FROM deleted_databases WHERE name = ? ORDER BY created',
  indexes: LIST_INDEXES,
  hasRevision: `SELECT 1 FROM superseded WHERE db = ?1 AND id = ?2 AND position = ?3
    UNION ALL SELECT 1 FROM items WHERE db = ?1 AND id = ?2 AND revision = ?3`,
  countSuperseded: 'SELECT count(*) FROM superseded WHERE db = ?',
  idempotencyRecord: `SELECT ${IDEMPOTENCY_COLUMNS} FROM answers WHERE key = ?`,
  idempotencyRecords: `SELECT ${IDEMPOTENCY_COLUMNS} FROM answers
    WHERE position > ? ORDER BY position ${LIMIT}`,
  head: 'SELECT height, id, timestamps FROM blocks ORDER BY height DESC LIMIT 1',
  blocks: `SELECT height, id, prev_id, nonce, root, body, timestamps, blinds, commitments
    FROM blocks WHERE height >= ? ORDER BY height ${LIMIT}`,
  // Reads the length of a value from the row's header, without reading the value.
  countEntries: `SELECT coalesce(sum(length(commitments)), 0) / 32 FROM blocks
    WHERE height >= ? AND height < ?`,
  headers: `SELECT height, prev_id, nonce, root, length(commitments)
    FROM blocks WHERE height >= ? ORDER BY height ${LIMIT}`,
  eraser: 'SELECT eraser FROM erasures WHERE position = ?',
  countErased: 'SELECT count(*) FROM erasures',
  uncompacted: 'SELECT position FROM uncompacted ORDER BY position',
  treeNode: `SELECT substr(hashes, ?, ${HASH_BYTES}) FROM tree WHERE height = ?`,
  treeLeaves: `SELECT hashes FROM tree WHERE height >= ? ORDER BY height ${LIMIT}`,
} as const

const count = (row: Row): number => integerOf(row, 'count')

/**
 * Reads a store on a connection that may be read-only.
 *
 * Reads of one event-loop iteration share a read transaction, because beginning and ending a transaction costs more
 * than a read. `refresh` ends the transaction early, so that a read after an acknowledged append never sees an older
 * state.
 */
export class SqliteReader implements StoreReader {
  readonly serverId: number
  readonly attachments: SqliteAttachments
  /** `SqliteStore` also writes with this connection. */
  protected readonly connection: DatabaseSync
  protected readonly history: History
  readonly #sql
  readonly #creations: CreationReader
  readonly #reads: Reads
  readonly #searchRows: SqliteSearchRows

  constructor(connection: DatabaseSync, view: View) {
    this.connection = connection
    this.#sql = queriesOf(connection, SQL)
    this.#reads = new Reads(view)
    this.attachments = new SqliteAttachments(connection, this.#reads)
    this.serverId = readOwner(connection)
    this.history = new History(connection)
    this.#creations = new CreationReader(connection, this.serverId)
    this.#searchRows = new SqliteSearchRows(new StatementCache(connection), this.#reads)
  }

  async databases(): Promise<StoredDatabase[]> {
    return this.#reads.all(this.#sql.databases, [], databaseOf)
  }

  async database(name: string): Promise<StoredDatabase | null> {
    return this.#reads.first(this.#sql.database, [name], databaseOf)
  }

  async item(db: string, id: string): Promise<StoredItem | null> {
    return this.#reads.first(this.#sql.item, [db, id], itemOf)
  }

  async itemBytes(db: string, id: string): Promise<number | null> {
    return this.#reads.first(this.#sql.itemBytes, [db, id], (row) => integerOf(row, 'item'))
  }

  async listIds(database: number, range: ItemRange): Promise<Omit<StoredItem, 'text'>[]> {
    const { after = -1, offset = 0, limit } = range
    return this.#reads.all(this.#sql.ids, [database, after, limit, offset], positionsOf)
  }

  async listItems(database: number, range: ItemRange): Promise<StoredItem[]> {
    const { after = -1, offset = 0, limit } = range
    return this.#reads.run(() => {
      const rows = this.#sql.items.iterate(database, after, limit, offset)
      return page(rows, itemOf, (item) => item.text.length)
    })
  }

  async search(database: number, query: ItemSearch): Promise<FoundItems> {
    return searchItems(this.#searchRows, database, query)
  }

  async count(database: number, where: Where | null): Promise<CountedItems> {
    return countItems(this.#searchRows, database, where)
  }

  async indexes(): Promise<StoredIndex[]> {
    return this.#reads.all(this.#sql.indexes, [], indexOf)
  }

  async itemsByCreation(after: number, limit: number): Promise<ItemRow[]> {
    return this.#reads.run(() => this.#creations.page(after, limit))
  }

  async plainCreations(height: number, ids: readonly string[]): Promise<Creations[] | null> {
    return this.#reads.run(() => this.#creations.plain(height, ids))
  }

  async revisions(database: number, id: string, range: RevisionRange): Promise<StoredRevision[]> {
    return this.#reads.run(() => this.history.page(database, id, range))
  }

  async hasRevision(database: number, id: string, position: number): Promise<boolean> {
    return this.#reads.first(this.#sql.hasRevision, [database, id, position], () => true) ?? false
  }

  async countSuperseded(database: number): Promise<number> {
    return this.#reads.first(this.#sql.countSuperseded, [database], count) ?? 0
  }

  async idempotencyRecord(key: string): Promise<IdempotencyRecord | null> {
    return this.#reads.first(this.#sql.idempotencyRecord, [key], idempotencyRecordOf)
  }

  async idempotencyRecords(after: number, limit: number): Promise<IdempotencyRecord[]> {
    return this.#reads.all(this.#sql.idempotencyRecords, [after, limit], idempotencyRecordOf)
  }

  async countItems(database: number): Promise<number> {
    return this.#reads.first(this.#sql.countItems, [database], count) ?? 0
  }

  async countIds(database: number, from: string, to: string): Promise<number> {
    return this.#reads.first(this.#sql.countIds, [database, from, to], count) ?? 0
  }

  async droppedDatabases(): Promise<number[]> {
    return this.#reads.all(this.#sql.dropped, [], (row) => integerOf(row, 'db'))
  }

  async deletedDatabases(): Promise<StoredDatabase[]> {
    return this.#reads.all(this.#sql.deleted, [], databaseOf)
  }

  async formerDatabases(name: string): Promise<number[]> {
    return this.#reads.all(this.#sql.former, [name], (row) => integerOf(row, 'created'))
  }

  async fileDamage(): Promise<string | null> {
    return this.#reads.run(() => {
      const [first] = new Query(this.connection, 'PRAGMA integrity_check(1)').all()
      if (first?.[0] === 'ok') return null
      return `the file is damaged: ${this.#withName(String(first?.[0]))}`
    })
  }

  async damage(): Promise<string | null> {
    const inFile = await this.fileDamage()
    return inFile ?? this.#reads.run(() => this.#strayRows() ?? indexDamage(this.connection))
  }

  #strayRows(): string | null {
    for (const { what, sql } of STRAY_ROWS) {
      const row = new Query(this.connection, sql).get()
      if (row !== undefined) return `${what} ${row[0]}`
    }
    return null
  }

  /** Replaces the root page in a message of `integrity_check` with the name of its table or index. */
  #withName(text: string): string {
    const query = new Query(this.connection, 'SELECT name FROM sqlite_schema WHERE rootpage = ?')
    return text
      .replace(/^\*\*\* in database main \*\*\*\n/, '')
      .replace(/^Tree (\d+) /, (tree, root) => {
        const name = query.get(Number(root))?.[0]
        return typeof name === 'string' ? `${name}, ` : tree
      })
  }

  async head(serverId: number): Promise<Head | null> {
    if (serverId !== this.serverId) return null
    return this.#reads.first(this.#sql.head, [], headOfRow)
  }

  async blocks(serverId: number, from: number, limit: number): Promise<Block[]> {
    if (serverId !== this.serverId) return []
    return this.#reads.run(() =>
      page(
        this.#sql.blocks.iterate(from, limit),
        (row) => blockOf(row, serverId),
        (block) => block.entries.reduce((sum, entry) => sum + entry.length, 0),
      ),
    )
  }

  async countEntries(serverId: number, from: number, to: number): Promise<number> {
    if (serverId !== this.serverId) return 0
    return this.#reads.first(this.#sql.countEntries, [from, to], count) ?? 0
  }

  async diskUsage(): Promise<DiskUsage> {
    const path = this.connection.location() ?? ''
    const bytes = (file: string) => statSync(file, { throwIfNoEntry: false })?.size ?? 0
    const { bavail, bsize } = await statfs(dirname(path))
    return {
      fileBytes: bytes(path),
      walBytes: bytes(`${path}-wal`),
      freeBytes: bavail * bsize,
    }
  }

  async headers(serverId: number, from: number, limit: number): Promise<Header[]> {
    if (serverId !== this.serverId) return []
    return this.#reads.all(this.#sql.headers, [from, limit], (row) => headerOfRow(row, serverId))
  }

  async treeNodes(serverId: number, nodes: readonly TreeNode[]): Promise<Uint8Array[]> {
    return this.#reads.run(() =>
      nodes.map((node) => {
        const { leaf, at } = nodePlace(node)
        const row = serverId === this.serverId ? this.#sql.treeNode.get(at + 1, leaf) : undefined
        const hash = row === undefined ? null : bytesOf(row, 'hashes')
        if (hash?.length === HASH_BYTES) return hash
        const where = `level ${node.level}, index ${node.index}`
        throw new StoreError('STORE_DAMAGED', `a node of the log is missing: ${where}`)
      }),
    )
  }

  async treeLeaves(serverId: number, from: number, limit: number): Promise<Uint8Array[]> {
    if (serverId !== this.serverId) return []
    return this.#reads.all(this.#sql.treeLeaves, [from, limit], (row) => bytesOf(row, 'hashes'))
  }

  async eraser(position: number): Promise<number | null> {
    return this.#reads.first(this.#sql.eraser, [position], (row) => integerOf(row, 'eraser'))
  }

  async countErased(): Promise<number> {
    return this.#reads.first(this.#sql.countErased, [], count) ?? 0
  }

  async uncompacted(): Promise<number[]> {
    return this.#reads.all(this.#sql.uncompacted, [], (row) => integerOf(row, 'position'))
  }

  readFailure(): StoreError | null {
    return this.#reads.failure()
  }

  refresh(): void {
    this.#reads.refresh()
  }

  readonly timeline = 0

  requireTimeline(): void {}

  async close(): Promise<void> {
    this.#reads.refresh()
    this.connection.close()
  }
}

/**
 * Opens the store in the file at `path` for reading, even while another process writes it. With `frozen`,
 * every read sees the state at the first read.
 * Errors: STORE_NOT_FOUND, FOLDER_UNUSABLE, STORE_FOREIGN, STORE_FORMAT, STORE_DAMAGED.
 */
export function openSqliteReader(path: string, frozen: boolean): SqliteReader {
  requireStoreFile(path)
  let database: DatabaseSync | null = null
  try {
    database = connectReadOnly(path)
    database.exec(`PRAGMA cache_size = -${CACHE_KIB}`)
    requireStore(database, path)
    if (frozen) database.exec('BEGIN')
    return new SqliteReader(database, frozen ? NO_VIEW : viewPerIteration(database))
  } catch (error) {
    database?.close()
    if (error instanceof StoreError) throw error
    const reason = error instanceof Error ? error.message : String(error)
    throw new StoreError('STORE_DAMAGED', `${path} cannot be read: ${reason}`, { cause: error })
  }
}

/**
 * Opens a read-only connection that leaves the folder unchanged.
 *
 * Reading requires a WAL and its index. Both exist while a node runs and after a kill. After a clean shutdown, the
 * connection creates an empty WAL and index and removes them on close, so the connection must be writable. On a
 * read-only disk, the file is opened as immutable.
 */
export function connectReadOnly(path: string): DatabaseSync {
  const hasWal = (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0
  const database = new DatabaseSync(path, { readOnly: hasWal, timeout: BUSY_TIMEOUT_MS })
  try {
    database.exec('PRAGMA query_only = ON')
    database.prepare('SELECT count(*) FROM sqlite_schema').get()
    return database
  } catch (error) {
    database.close()
    if (hasWal) throw error
    const url = pathToFileURL(path)
    url.searchParams.set('immutable', '1')
    return new DatabaseSync(url, { readOnly: true })
  }
}
