import { statSync } from 'node:fs'
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
import { StoreError } from '../errors.ts'
import { requireStoreFile } from '../folder.ts'
import type { IdempotencyRecord } from '../idempotency-record.ts'
import type {
  Creations,
  FoundItems,
  ItemRange,
  ItemSearch,
  PlacedItem,
  RevisionRange,
  StoredDatabase,
  StoredIndex,
  StoredItem,
  StoredRevision,
  StoreReader,
} from '../store.ts'
import { SqliteAttachments } from './attachments.ts'
import { CreationReader } from './creations.ts'
import { Revisions } from './history.ts'
import { countIds } from './id-source.ts'
import { AnswerReader } from './idempotency.ts'
import { indexDamage } from './index-damage.ts'
import { indexesOf } from './index-list.ts'
import { NO_VIEW, Reads, type View, viewPerTurn } from './reads.ts'
import {
  blockOf,
  bytesOf,
  databaseOf,
  headerOfRow,
  headOfRow,
  integerOf,
  itemOf,
  page,
  positionsOf,
  type Row,
} from './rows.ts'
import { checkReadable, ownerOf } from './schema.ts'
import { Search } from './search.ts'
import { LIMIT, Query, StatementCache } from './statements.ts'

/** Page cache of a reading connection, KiB. */
const CACHE_KIB = 8_192
/** How long a read waits for a lock; readers of a write-ahead log only wait while it is set up. */
const BUSY_TIMEOUT_MS = 5_000

/**
 * The reading half of the engine, on a connection that may be read-only.
 *
 * Reads made in one turn of the event loop share one view of the file: taking and leaving a view
 * costs locks, which is more than a read does. `refresh` ends it early, so that a read after an
 * append was acknowledged never sees the file as it was before.
 */
export class SqliteReader implements StoreReader {
  readonly serverId: number
  /** The connection; the writing half shares it. */
  protected readonly connection: DatabaseSync
  readonly #select: Record<keyof typeof SELECT, Query>
  readonly #revisions: Revisions
  readonly #answers: AnswerReader
  readonly #creations: CreationReader
  readonly #reads: Reads
  readonly attachments: SqliteAttachments
  readonly #statements: StatementCache

  constructor(connection: DatabaseSync, view: View) {
    this.connection = connection
    this.#reads = new Reads(view)
    this.attachments = new SqliteAttachments(connection, this.#reads)
    this.serverId = ownerOf(connection)
    this.#revisions = new Revisions(connection)
    this.#answers = new AnswerReader(connection)
    this.#creations = new CreationReader(connection, this.serverId)
    this.#statements = new StatementCache(connection)
    const query = (name: keyof typeof SELECT) => new Query(connection, SELECT[name])
    this.#select = {
      databases: query('databases'),
      database: query('database'),
      item: query('item'),
      ids: query('ids'),
      items: query('items'),
      count: query('count'),
      dropped: query('dropped'),
      head: query('head'),
      blocks: query('blocks'),
      entries: query('entries'),
      headers: query('headers'),
      eraser: query('eraser'),
      erased: query('erased'),
      uncompacted: query('uncompacted'),
      treeNode: query('treeNode'),
      treeLeaves: query('treeLeaves'),
    }
  }

  async databases(): Promise<StoredDatabase[]> {
    return this.#reads.run(() => this.#select.databases.all().map(databaseOf))
  }

  async database(name: string): Promise<StoredDatabase | null> {
    return this.#reads.run(() => {
      const row = this.#select.database.get(name)
      return row === undefined ? null : databaseOf(row)
    })
  }

  async item(db: string, id: string): Promise<StoredItem | null> {
    return this.#reads.run(() => {
      const row = this.#select.item.get(db, id)
      return row === undefined ? null : itemOf(row)
    })
  }

  async listIds(database: number, range: ItemRange): Promise<Omit<StoredItem, 'text'>[]> {
    return this.#reads.run(() => {
      const { after = -1, offset = 0, limit } = range
      return this.#select.ids.all(database, after, limit, offset).map(positionsOf)
    })
  }

  async listItems(database: number, range: ItemRange): Promise<StoredItem[]> {
    return this.#reads.run(() => {
      const { after = -1, offset = 0, limit } = range
      const rows = this.#select.items.iterate(database, after, limit, offset)
      return page(rows, itemOf, (item) => item.text.length)
    })
  }

  async search(database: number, query: ItemSearch): Promise<FoundItems> {
    const ground = { statements: this.#statements, reads: this.#reads }
    const search = new Search(ground, database, query)
    return { index: search.index, pieces: search.pieces() }
  }

  async indexes(): Promise<StoredIndex[]> {
    return this.#reads.run(() => indexesOf(this.#statements))
  }

  async itemsByCreation(after: number, limit: number): Promise<PlacedItem[]> {
    return this.#reads.run(() => this.#creations.page(after, limit))
  }

  async plainCreations(height: number, ids: readonly string[]): Promise<Creations[] | null> {
    return this.#reads.run(() => this.#creations.plain(height, ids))
  }

  async revisions(database: number, id: string, range: RevisionRange): Promise<StoredRevision[]> {
    return this.#reads.run(() => this.#revisions.page(database, id, range))
  }

  async isSuperseded(database: number, id: string, position: number): Promise<boolean> {
    return this.#reads.run(() => this.#revisions.has(database, id, position))
  }

  async countSuperseded(database: number): Promise<number> {
    return this.#reads.run(() => this.#revisions.count(database))
  }

  async idempotencyRecord(key: string): Promise<IdempotencyRecord | null> {
    return this.#reads.run(() => this.#answers.byKey(key))
  }

  async idempotencyRecords(after: number, limit: number): Promise<IdempotencyRecord[]> {
    return this.#reads.run(() => this.#answers.page(after, limit))
  }

  async countItems(database: number): Promise<number> {
    return this.#reads.run(() => {
      const row = this.#select.count.get(database)
      return row === undefined ? 0 : integerOf(row, 'count')
    })
  }

  async countIds(database: number, from: string, to: string): Promise<number> {
    return this.#reads.run(() => countIds(this.#statements, database, { from, to }))
  }

  async droppedDatabases(): Promise<number[]> {
    return this.#reads.run(() => this.#select.dropped.all().map((row) => integerOf(row, 'db')))
  }

  async damage(): Promise<string | null> {
    return this.#reads.run(() => {
      const [first] = new Query(this.connection, 'PRAGMA integrity_check(1)').all()
      if (first?.[0] !== 'ok') return `the file is damaged: ${this.#named(String(first?.[0]))}`
      return indexDamage(this.connection)
    })
  }

  /** What the engine says of damage, with the name of the table or index in place of its root page. */
  #named(text: string): string {
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
    return this.#reads.run(() => {
      const row = this.#select.head.get()
      return row === undefined ? null : headOfRow(row)
    })
  }

  async blocks(serverId: number, from: number, limit: number): Promise<Block[]> {
    if (serverId !== this.serverId) return []
    return this.#reads.run(() => {
      const read = (row: Row) => blockOf(row, serverId)
      return page(this.#select.blocks.iterate(from, limit), read, (block) =>
        block.entries.reduce((sum, entry) => sum + entry.length, 0),
      )
    })
  }

  async countEntries(serverId: number, from: number, to: number): Promise<number> {
    if (serverId !== this.serverId) return 0
    return this.#reads.run(() => {
      const row = this.#select.entries.get(from, to)
      return row === undefined ? 0 : integerOf(row, 'count')
    })
  }

  async diskUsage(): Promise<{ fileBytes: number; walBytes: number }> {
    const path = this.connection.location() ?? ''
    const bytes = (file: string) => statSync(file, { throwIfNoEntry: false })?.size ?? 0
    return { fileBytes: bytes(path), walBytes: bytes(`${path}-wal`) }
  }

  async headers(serverId: number, from: number, limit: number): Promise<Header[]> {
    if (serverId !== this.serverId) return []
    return this.#reads.run(() =>
      this.#select.headers.all(from, limit).map((row) => headerOfRow(row, serverId)),
    )
  }

  async treeNodes(serverId: number, nodes: readonly TreeNode[]): Promise<Uint8Array[]> {
    return this.#reads.run(() => {
      return nodes.map((node) => {
        const { leaf, at } = nodePlace(node)
        const row = serverId === this.serverId ? this.#select.treeNode.get(at + 1, leaf) : undefined
        const hash = row === undefined ? null : bytesOf(row, 'hashes')
        if (hash?.length === HASH_BYTES) return hash
        const where = `level ${node.level}, index ${node.index}`
        throw new StoreError('STORE_DAMAGED', `a node of the log is missing: ${where}`)
      })
    })
  }

  async treeLeaves(serverId: number, from: number, limit: number): Promise<Uint8Array[]> {
    if (serverId !== this.serverId) return []
    return this.#reads.run(() =>
      this.#select.treeLeaves.all(from, limit).map((row) => bytesOf(row, 'hashes')),
    )
  }

  async eraser(position: number): Promise<number | null> {
    return this.#reads.run(() => {
      const row = this.#select.eraser.get(position)
      return row === undefined ? null : integerOf(row, 'eraser')
    })
  }

  async countErased(): Promise<number> {
    return this.#reads.run(() => {
      const row = this.#select.erased.get()
      return row === undefined ? 0 : integerOf(row, 'count')
    })
  }

  async uncompacted(): Promise<number[]> {
    return this.#reads.run(() =>
      this.#select.uncompacted.all().map((row) => integerOf(row, 'position')),
    )
  }

  readFailure(): StoreError | null {
    return this.#reads.failure()
  }

  refresh(): void {
    this.#reads.refresh()
  }

  async close(): Promise<void> {
    this.#reads.refresh()
    this.connection.close()
  }
}

const SELECT = {
  databases: 'SELECT created, name FROM databases ORDER BY created',
  database: 'SELECT created, name FROM databases WHERE name = ?',
  item: `SELECT id, created, revision, item FROM items
    WHERE db = (SELECT created FROM databases WHERE name = ?) AND id = ?`,
  ids: `SELECT id, created, revision FROM items
    WHERE db = ? AND created > ? ORDER BY created ${LIMIT} OFFSET ?`,
  items: `SELECT id, created, revision, item FROM items
    WHERE db = ? AND created > ? ORDER BY created ${LIMIT} OFFSET ?`,
  count: 'SELECT count(*) AS n FROM items WHERE db = ?',
  dropped: 'SELECT db FROM dropped ORDER BY db',
  head: 'SELECT height, id, timestamps FROM blocks ORDER BY height DESC LIMIT 1',
  blocks: `SELECT height, id, prev_id, nonce, root, body, timestamps, blinds, commitments
    FROM blocks WHERE height >= ? ORDER BY height ${LIMIT}`,
  // The length of a value stands at the front of its row: the values themselves are not read.
  entries: `SELECT coalesce(sum(length(commitments)), 0) / 32 FROM blocks
    WHERE height >= ? AND height < ?`,
  headers: `SELECT height, prev_id, nonce, root, length(commitments)
    FROM blocks WHERE height >= ? ORDER BY height ${LIMIT}`,
  eraser: 'SELECT eraser FROM erasures WHERE position = ?',
  erased: 'SELECT count(*) FROM erasures',
  uncompacted: 'SELECT position FROM uncompacted ORDER BY position',
  treeNode: `SELECT substr(hashes, ?, ${HASH_BYTES}) FROM tree WHERE height = ?`,
  treeLeaves: `SELECT hashes FROM tree WHERE height >= ? ORDER BY height ${LIMIT}`,
} as const

/**
 * Opens the store in the file at `path` for reading, beside a process that may be writing it.
 * With `frozen` every read sees the store as it was at the first one, however long that takes.
 * Errors: STORE_NOT_FOUND, FOLDER_UNUSABLE, STORE_FOREIGN, STORE_TOO_NEW, STORE_TOO_OLD, STORE_DAMAGED.
 */
export function openSqliteReader(path: string, frozen: boolean): SqliteReader {
  requireStoreFile(path)
  let database: DatabaseSync | null = null
  try {
    database = connect(path)
    database.exec(`PRAGMA cache_size = -${CACHE_KIB}`)
    checkReadable(database, path)
    if (frozen) database.exec('BEGIN')
    return new SqliteReader(database, frozen ? NO_VIEW : viewPerTurn(database))
  } catch (error) {
    database?.close()
    if (error instanceof StoreError) throw error
    const reason = error instanceof Error ? error.message : String(error)
    throw new StoreError('STORE_DAMAGED', `${path} cannot be read: ${reason}`, { cause: error })
  }
}

/**
 * A connection that only reads, and leaves the folder as it found it.
 *
 * Reading needs a log and its index beside the file. A node that runs, or was killed, has them. After
 * one that was stopped the connection makes empty ones, and takes them away when it is closed: only
 * one that could write may do that. On a read-only disk the file is taken as one that nobody writes.
 */
export function connect(path: string): DatabaseSync {
  const hasLog = (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0
  const database = new DatabaseSync(path, { readOnly: hasLog, timeout: BUSY_TIMEOUT_MS })
  try {
    database.exec('PRAGMA query_only = ON')
    database.prepare('SELECT count(*) FROM sqlite_schema').get()
    return database
  } catch (error) {
    database.close()
    if (hasLog) throw error
    const url = pathToFileURL(path)
    url.searchParams.set('immutable', '1')
    return new DatabaseSync(url, { readOnly: true })
  }
}
