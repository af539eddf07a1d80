import { existsSync } from 'node:fs'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import type { Block, Head } from '../../chain/index.ts'
import { StoreError } from '../errors.ts'
import {
  type ItemRange,
  PAGE_CHARACTERS,
  type StoredDatabase,
  type StoredItem,
  type StoreReader,
} from '../store.ts'
import { blockOf, databaseOf, droppedOf, headOfRow, itemOf, positionsOf } from './rows.ts'
import { checkedVersion, ownerOf } from './schema.ts'

/** Page cache of a reading connection, KiB. */
const CACHE_KIB = 16_384
/** How long a read waits for a lock; readers of a write-ahead log only wait while it is set up. */
const BUSY_TIMEOUT_MS = 5_000

/** The reading half of the engine, on a connection that may be read-only. */
export class SqliteReader implements StoreReader {
  readonly serverId: number
  /** The connection; the writing half shares it. */
  protected readonly connection: DatabaseSync
  readonly #select: Record<keyof typeof SELECT, StatementSync>

  constructor(database: DatabaseSync) {
    this.connection = database
    this.serverId = ownerOf(database)
    const prepare = (name: keyof typeof SELECT) => database.prepare(SELECT[name])
    this.#select = {
      databases: prepare('databases'),
      database: prepare('database'),
      item: prepare('item'),
      ids: prepare('ids'),
      items: prepare('items'),
      count: prepare('count'),
      dropped: prepare('dropped'),
      head: prepare('head'),
      blocks: prepare('blocks'),
    }
  }

  async databases(): Promise<StoredDatabase[]> {
    return this.#select.databases.all().map(databaseOf)
  }

  async database(name: string): Promise<StoredDatabase | null> {
    const row = this.#select.database.get(name)
    return row === undefined ? null : databaseOf(row)
  }

  async item(db: string, id: string): Promise<StoredItem | null> {
    const row = this.#select.item.get(db, id)
    return row === undefined ? null : itemOf(row)
  }

  async listIds(database: number, range: ItemRange): Promise<Omit<StoredItem, 'text'>[]> {
    const { after = -1, offset = 0, limit } = range
    return this.#select.ids.all(database, after, limit, offset).map(positionsOf)
  }

  async listItems(database: number, range: ItemRange): Promise<StoredItem[]> {
    const { after = -1, offset = 0, limit } = range
    return page(this.#select.items.iterate(database, after, limit, offset), itemOf, (item) => {
      return item.text.length
    })
  }

  async countItems(database: number): Promise<number> {
    const count = this.#select.count.get(database)?.n
    return typeof count === 'number' ? count : 0
  }

  async droppedDatabases(): Promise<number[]> {
    return this.#select.dropped.all().map(droppedOf)
  }

  async head(serverId: number): Promise<Head | null> {
    const row = this.#select.head.get(serverId)
    return row === undefined ? null : headOfRow(row)
  }

  async blocks(serverId: number, from: number, limit: number): Promise<Block[]> {
    return page(this.#select.blocks.iterate(serverId, from, limit), blockOf, (block) =>
      block.entries.reduce((sum, entry) => sum + entry.length, 0),
    )
  }

  async close(): Promise<void> {
    this.connection.close()
  }
}

const SELECT = {
  databases: 'SELECT created, name FROM databases ORDER BY created',
  database: 'SELECT created, name FROM databases WHERE name = ?',
  item: `SELECT id, created, revision, item FROM items
    WHERE db = (SELECT created FROM databases WHERE name = ?) AND id = ?`,
  ids: `SELECT id, created, revision FROM items
    WHERE db = ? AND created > ? ORDER BY created LIMIT ? OFFSET ?`,
  items: `SELECT id, created, revision, item FROM items
    WHERE db = ? AND created > ? ORDER BY created LIMIT ? OFFSET ?`,
  count: 'SELECT count(*) AS n FROM items WHERE db = ?',
  dropped: 'SELECT db FROM dropped ORDER BY db',
  head: `SELECT height, id, timestamps FROM blocks
    WHERE serverid = ? ORDER BY height DESC LIMIT 1`,
  blocks: `SELECT serverid, height, id, prev_id, nonce, root, body, timestamps, blinds, commitments
    FROM blocks WHERE serverid = ? AND height >= ? ORDER BY height LIMIT ?`,
} as const

/** Takes rows until the page is full; leaving the loop resets the statement. */
function page<Row, Value>(
  rows: Iterable<Row>,
  read: (row: Row) => Value,
  charactersOf: (value: Value) => number,
): Value[] {
  const values: Value[] = []
  let characters = 0
  for (const row of rows) {
    const value = read(row)
    values.push(value)
    characters += charactersOf(value)
    if (characters >= PAGE_CHARACTERS) break
  }
  return values
}

/**
 * Opens the store in the file at `path` for reading, beside a process that may be writing it.
 * With `frozen` every read sees the store as it was at the first one, however long that takes.
 * Errors: STORE_NOT_FOUND, STORE_FOREIGN, STORE_TOO_NEW, STORE_DAMAGED.
 */
export function openSqliteReader(path: string, frozen: boolean): SqliteReader {
  if (!existsSync(path)) throw new StoreError('STORE_NOT_FOUND', `there is no store at ${path}`)
  let database: DatabaseSync | null = null
  try {
    database = connect(path)
    database.exec(`PRAGMA cache_size = -${CACHE_KIB}`)
    if (checkedVersion(database, path) === 0) {
      throw new StoreError('STORE_NOT_FOUND', `the store at ${path} is empty`)
    }
    if (frozen) database.exec('BEGIN')
    return new SqliteReader(database)
  } catch (error) {
    database?.close()
    if (error instanceof StoreError) throw error
    const reason = error instanceof Error ? error.message : String(error)
    throw new StoreError('STORE_DAMAGED', `${path} cannot be read: ${reason}`, { cause: error })
  }
}

/** A read-only connection; on a read-only disk the file is taken as one that nobody writes. */
function connect(path: string): DatabaseSync {
  const database = new DatabaseSync(path, { readOnly: true, timeout: BUSY_TIMEOUT_MS })
  try {
    database.prepare('SELECT count(*) FROM sqlite_schema').get()
    return database
  } catch (error) {
    database.close()
    if (existsSync(`${path}-wal`)) throw error
    const url = pathToFileURL(path)
    url.searchParams.set('immutable', '1')
    return new DatabaseSync(url, { readOnly: true })
  }
}
