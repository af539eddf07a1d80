import {
  type Block,
  HASH_BYTES,
  type Head,
  type Header,
  nodePlace,
  packPosition,
  type TreeNode,
} from '../../chain/index.ts'
import type { Where } from '../../filter/index.ts'
import { createItemParts } from '../port/effect.ts'
import { StoreError } from '../port/errors.ts'
import {
  type CountedItems,
  type Creations,
  type DiskUsage,
  type FoundItems,
  type IdempotencyRecord,
  type ItemRange,
  type ItemRow,
  type ItemSearch,
  PAGE_CHARACTERS,
  type RevisionRange,
  type StoredDatabase,
  type StoredIndex,
  type StoredItem,
  type StoredRevision,
  type StoreReader,
} from '../port/store.ts'
import { indexOf } from '../search/declared-indexes.ts'
import { countItems, searchItems } from '../search/search.ts'
import { revisionMissing, revisionOf } from '../sql/revisions.ts'
import {
  blockOf,
  bodyOf,
  bytesOf,
  creationsOf,
  databaseOf,
  headerOfRow,
  headOfRow,
  idempotencyRecordOf,
  integerOf,
  itemOf,
  itemRowOf,
  positionsOf,
  type Row,
} from '../sql/rows.ts'
import { PostgresAttachments } from './attachments.ts'
import { Connection, type Queries, type Value } from './connection.ts'
import { damageOf, physicalDamage } from './damage.ts'
import { storeErrorOf } from './errors.ts'
import { LIST_INDEXES } from './indexes.ts'
import { FrozenQueries, ReadPool, Reads } from './reads.ts'
import { retrying } from './retry.ts'
import { requireStore } from './schema.ts'
import { PostgresSearchRows } from './search-rows.ts'

/**
 * Limits the rows of `source`, sorted by `order`, to one page: includes a row if the rows before it are together
 * shorter than a page. `size` is the SQL of the number of bytes of a row, which is an upper bound of its characters.
 */
function page(source: string, { size, order }: { size: string; order: string }): string {
  return `SELECT * FROM (
      SELECT *, sum(${size}) OVER (ORDER BY ${order} ROWS UNBOUNDED PRECEDING) - ${size} AS bytes_before
      FROM (${source}) AS found) AS page
    WHERE bytes_before < ${PAGE_CHARACTERS} ORDER BY ${order}`
}

/** Returns the SQL of a page of an item's revisions. The current revision is newer than all others, or absent. */
function revisions(operator: '<' | '>', direction: 'ASC' | 'DESC'): string {
  const found = `SELECT position FROM superseded
      WHERE db = $1 AND id = $2 AND position ${operator} $3
    UNION ALL SELECT revision FROM items
      WHERE db = $1 AND id = $2 AND revision ${operator} $3
    ORDER BY 1 ${direction} LIMIT $4`
  const { height, index } = { height: `position / ${ROOM}`, index: `(position % ${ROOM})::int4` }
  // The size of a page counts each block once, because the server reads whole blocks even though it sends only the
  // entries.
  const source = `SELECT f.position, b.body, b.timestamps, b.blinds, CASE
        WHEN row_number() OVER (PARTITION BY ${height} ORDER BY position) = 1
        THEN octet_length(b.body) ELSE 0 END AS size
      FROM (${found}) AS f LEFT JOIN blocks AS b ON b.height = ${height}`
  return `SELECT position, split_part(body, E'\\n', ${index} + 1),
      split_part(timestamps, E'\\n', ${index} + 1),
      substring(blinds FROM ${index} * ${HASH_BYTES} + 1 FOR ${HASH_BYTES})
    FROM (${page(source, { size: 'size', order: `position ${direction}` })}) AS revisions
    ORDER BY position ${direction}`
}

/** Number of packed positions reserved per block. */
const ROOM = packPosition(1, 0)
const ITEM = 'id, created, revision, item'
const BLOCK = 'height, id, prev_id, nonce, root, body, timestamps, blinds, commitments'
const RECORD = 'position, key, fingerprint, entries, timestamp, digest'
const BY_CREATION = { size: 'octet_length(item)', order: 'created' }

const SQL = {
  databases: 'SELECT created, name FROM databases ORDER BY created',
  database: 'SELECT created, name FROM databases WHERE name = $1',
  item: `SELECT i.id, i.created, i.revision, i.item FROM databases AS d
    JOIN items AS i ON i.db = d.created
    WHERE d.name = $1 AND i.id = $2`,
  // The server takes the length from the header of the value.
  itemBytes: `SELECT octet_length(i.item) FROM databases AS d JOIN items AS i ON i.db = d.created
    WHERE d.name = $1 AND i.id = $2`,
  ids: `SELECT id, created, revision FROM items
    WHERE db = $1 AND created > $2 ORDER BY created LIMIT $3 OFFSET $4`,
  items: page(
    `SELECT ${ITEM} FROM items
      WHERE db = $1 AND created > $2 ORDER BY created LIMIT $3 OFFSET $4`,
    BY_CREATION,
  ),
  itemsByCreation: page(
    `SELECT ${ITEM}, db FROM items WHERE created > $1 ORDER BY created LIMIT $2`,
    BY_CREATION,
  ),
  countItems: 'SELECT count(*) FROM items WHERE db = $1',
  countIds: 'SELECT count(*) FROM items WHERE db = $1 AND id >= $2 AND id < $3',
  // Composes, from the rows of one height, the entries that would have created these rows, and compares the entries
  // with the block. Compares the sizes first, so that the composed text is not much longer than the block. Requires one
  // row for each of the $8 positions from $1 on.
  plainCreations: `WITH found AS (
      SELECT i.created, i.revision, i.id, i.item, i.db, d.name
      FROM items AS i JOIN databases AS d ON d.created = i.db
      WHERE i.created >= $1 AND i.created < $2),
    block AS (SELECT body FROM blocks WHERE height = $3)
    SELECT name, db, count(*) FROM found WHERE CASE
      WHEN (SELECT sum(octet_length(id) + octet_length(item)) FROM found)
        <= (SELECT octet_length(body) FROM block)
      THEN (SELECT bool_and(created = revision) AND count(*) = $8::int8
          AND min(created) = $1 AND max(created) = $1 + $8 - 1
          AND string_agg(id, E'\\n' ORDER BY created) = $4
          AND string_agg($5 || name || $6 || item || $7, E'\\n' ORDER BY created) = (SELECT body FROM block)
        FROM found)
      ELSE false END GROUP BY name, db`,
  oldestFirst: revisions('>', 'ASC'),
  newestFirst: revisions('<', 'DESC'),
  hasRevision: `SELECT 1 FROM superseded WHERE db = $1 AND id = $2 AND position = $3
    UNION ALL SELECT 1 FROM items WHERE db = $1 AND id = $2 AND revision = $3`,
  countSuperseded: 'SELECT count(*) FROM superseded WHERE db = $1',
  idempotencyRecord: `SELECT ${RECORD} FROM answers WHERE key = $1`,
  idempotencyRecords: `SELECT ${RECORD} FROM answers
    WHERE position > $1 ORDER BY position LIMIT $2`,
  dropped: 'SELECT db FROM dropped ORDER BY db',
  deleted: 'SELECT created, name FROM deleted_databases ORDER BY created',
  former: 'SELECT created FROM deleted_databases WHERE name = $1 ORDER BY created',
  head: `SELECT height, id, split_part(timestamps, E'\\n', -1) FROM blocks ORDER BY height DESC LIMIT 1`,
  blocks: page(`SELECT ${BLOCK} FROM blocks WHERE height >= $1 ORDER BY height LIMIT $2`, {
    size: 'octet_length(body)',
    order: 'height',
  }),
  countEntries: `SELECT (coalesce(sum(octet_length(commitments)), 0) / ${HASH_BYTES})::int8
    FROM blocks WHERE height >= $1 AND height < $2`,
  headers: `SELECT height, prev_id, nonce, root, octet_length(commitments)
    FROM blocks WHERE height >= $1 ORDER BY height LIMIT $2`,
  treeNodes: `SELECT substring(t.hashes FROM n.at + 1 FOR ${HASH_BYTES})
    FROM unnest($1::int8[], $2::int4[]) WITH ORDINALITY AS n (leaf, at, number)
    LEFT JOIN tree AS t ON t.height = n.leaf ORDER BY n.number`,
  treeLeaves: 'SELECT hashes FROM tree WHERE height >= $1 ORDER BY height LIMIT $2',
  eraser: 'SELECT eraser FROM erasures WHERE position = $1',
  countErased: 'SELECT count(*) FROM erasures',
  uncompacted: 'SELECT position FROM uncompacted ORDER BY position',
  size: 'SELECT pg_database_size(current_database())',
} as const

/** Maximum duration of a statement of a verification, which may count all rows of a table. */
const FROZEN_MS_MAX = 3_600_000

const count = (row: Row): number => integerOf(row, 'count')

/** Returns a list of integers as the value of an array parameter. */
function integerList(values: readonly number[]): string {
  return `{${values.join(',')}}`
}

/** Reads a database. Every call is one statement, so that it sees one state. */
export class PostgresReader implements StoreReader {
  readonly serverId: number
  readonly attachments: PostgresAttachments
  protected readonly reads: Reads
  readonly #queries: Queries
  readonly #createItemParts
  readonly #close: () => Promise<void>

  constructor(serverId: number, queries: Queries, close: () => Promise<void>) {
    this.serverId = serverId
    this.#queries = queries
    this.#close = close
    this.#createItemParts = createItemParts(serverId)
    this.reads = new Reads(queries)
    this.attachments = new PostgresAttachments(this.reads)
  }

  async databases(): Promise<StoredDatabase[]> {
    return this.reads.all(SQL.databases, [], databaseOf)
  }

  async database(name: string): Promise<StoredDatabase | null> {
    return this.reads.first(SQL.database, [name], databaseOf)
  }

  async item(db: string, id: string): Promise<StoredItem | null> {
    return this.reads.first(SQL.item, [db, id], itemOf)
  }

  async itemBytes(db: string, id: string): Promise<number | null> {
    return this.reads.first(SQL.itemBytes, [db, id], (row) => integerOf(row, 'item'))
  }

  async listIds(database: number, range: ItemRange): Promise<Omit<StoredItem, 'text'>[]> {
    return this.reads.all(SQL.ids, this.#rangeValues(database, range), positionsOf)
  }

  async listItems(database: number, range: ItemRange): Promise<StoredItem[]> {
    return this.reads.all(SQL.items, this.#rangeValues(database, range), itemOf)
  }

  async search(database: number, query: ItemSearch): Promise<FoundItems> {
    return searchItems(new PostgresSearchRows(this.reads), database, query)
  }

  async count(database: number, where: Where | null): Promise<CountedItems> {
    return countItems(new PostgresSearchRows(this.reads), database, where)
  }

  async indexes(): Promise<StoredIndex[]> {
    return this.reads.all(LIST_INDEXES, [], indexOf)
  }

  async itemsByCreation(after: number, limit: number): Promise<ItemRow[]> {
    return this.reads.all(SQL.itemsByCreation, [after, limit], itemRowOf)
  }

  async plainCreations(height: number, ids: readonly string[]): Promise<Creations[] | null> {
    const range = [packPosition(height, 0), packPosition(height + 1, 0)]
    const lines = ids.join('\n')
    const values = [...range, height, lines, ...this.#createItemParts, ids.length]
    // No id and no entry contains a line feed, so joined texts are equal exactly if all lines are.
    const creations = await this.reads.all(SQL.plainCreations, values, creationsOf)
    return creations.length === 0 ? null : creations
  }

  async revisions(database: number, id: string, range: RevisionRange): Promise<StoredRevision[]> {
    const { newestFirst, limit } = range
    const after = range.after ?? (newestFirst ? Number.MAX_SAFE_INTEGER : -1)
    const text = newestFirst ? SQL.newestFirst : SQL.oldestFirst
    return this.reads.all(text, [database, id, after, limit], (row) => {
      const [position, body, timestamp, blinds] = [integerOf(row, 'position'), ...row.slice(1)]
      // `body` and `timestamp` are empty if the block or the entry is missing.
      if (!body || !timestamp) throw revisionMissing(id, position)
      const block = { ...bodyOf([body, timestamp]), blinds: bytesOf([blinds], 'blinds') }
      return revisionOf(id, position, { height: 0, ...block }, 0)
    })
  }

  async hasRevision(database: number, id: string, position: number): Promise<boolean> {
    const values = [database, id, position]
    return (await this.reads.first(SQL.hasRevision, values, () => true)) ?? false
  }

  countSuperseded(database: number): Promise<number> {
    return this.#count(SQL.countSuperseded, [database])
  }

  async idempotencyRecord(key: string): Promise<IdempotencyRecord | null> {
    return this.reads.first(SQL.idempotencyRecord, [key], idempotencyRecordOf)
  }

  async idempotencyRecords(after: number, limit: number): Promise<IdempotencyRecord[]> {
    const values = [after, limit]
    return this.reads.all(SQL.idempotencyRecords, values, idempotencyRecordOf)
  }

  countItems(database: number): Promise<number> {
    return this.#count(SQL.countItems, [database])
  }

  countIds(database: number, from: string, to: string): Promise<number> {
    return this.#count(SQL.countIds, [database, from, to])
  }

  async droppedDatabases(): Promise<number[]> {
    return this.reads.all(SQL.dropped, [], (row) => integerOf(row, 'db'))
  }

  async deletedDatabases(): Promise<StoredDatabase[]> {
    return this.reads.all(SQL.deleted, [], databaseOf)
  }

  async formerDatabases(name: string): Promise<number[]> {
    return this.reads.all(SQL.former, [name], (row) => integerOf(row, 'created'))
  }

  async fileDamage(): Promise<string | null> {
    return this.#check(physicalDamage)
  }

  async damage(): Promise<string | null> {
    return this.#check(damageOf)
  }

  async #check(check: (queries: Queries) => Promise<string | null>): Promise<string | null> {
    try {
      return await check(this.#queries)
    } catch (error) {
      throw storeErrorOf(error)
    }
  }

  async head(serverId: number): Promise<Head | null> {
    if (serverId !== this.serverId) return null
    return this.reads.first(SQL.head, [], headOfRow)
  }

  async blocks(serverId: number, from: number, limit: number): Promise<Block[]> {
    if (serverId !== this.serverId) return []
    return this.reads.all(SQL.blocks, [from, limit], (row) => blockOf(row, serverId))
  }

  async countEntries(serverId: number, from: number, to: number): Promise<number> {
    if (serverId !== this.serverId) return 0
    return (await this.reads.first(SQL.countEntries, [from, to], count)) ?? 0
  }

  async diskUsage(): Promise<DiskUsage> {
    // `walBytes` is 0, because the write-ahead log belongs to the server, not to this database.
    const fileBytes = await this.reads.first(SQL.size, [], (row) => integerOf(row, 'size'))
    return { fileBytes: fileBytes ?? 0, walBytes: 0, freeBytes: null }
  }

  async headers(serverId: number, from: number, limit: number): Promise<Header[]> {
    if (serverId !== this.serverId) return []
    const values = [from, limit]
    return this.reads.all(SQL.headers, values, (row) => headerOfRow(row, serverId))
  }

  async treeNodes(serverId: number, nodes: readonly TreeNode[]): Promise<Uint8Array[]> {
    const places = serverId === this.serverId ? nodes.map(nodePlace) : []
    const lists = [places.map(({ leaf }) => leaf), places.map(({ at }) => at)].map(integerList)
    const hashes = await this.reads.all(SQL.treeNodes, lists, ([hash]) => hash)
    return nodes.map(({ level, index }, at) => {
      const hash = hashes[at]
      if (hash instanceof Uint8Array && hash.length === HASH_BYTES) return hash
      const where = `level ${level}, index ${index}`
      throw new StoreError('STORE_DAMAGED', `a node of the log is missing: ${where}`)
    })
  }

  async treeLeaves(serverId: number, from: number, limit: number): Promise<Uint8Array[]> {
    if (serverId !== this.serverId) return []
    return this.reads.all(SQL.treeLeaves, [from, limit], (row) => bytesOf(row, 'hashes'))
  }

  async eraser(position: number): Promise<number | null> {
    return this.reads.first(SQL.eraser, [position], (row) => integerOf(row, 'eraser'))
  }

  countErased(): Promise<number> {
    return this.#count(SQL.countErased, [])
  }

  async uncompacted(): Promise<number[]> {
    return this.reads.all(SQL.uncompacted, [], (row) => integerOf(row, 'position'))
  }

  readFailure(): StoreError | null {
    return this.reads.failure()
  }

  /** Does nothing, because every statement sees the data that is committed when it begins. */
  refresh(): void {}

  get timeline(): number {
    return this.#queries instanceof ReadPool ? this.#queries.timeline : 0
  }

  requireTimeline(timeline: number): void {
    if (this.#queries instanceof ReadPool) this.#queries.requireTimeline(timeline)
  }

  close(): Promise<void> {
    return this.#close()
  }

  #rangeValues(database: number, { after = -1, offset = 0, limit }: ItemRange): Value[] {
    return [database, after, limit, offset]
  }

  async #count(text: string, values: readonly Value[]): Promise<number> {
    return (await this.reads.first(text, [...values], count)) ?? 0
  }
}

export interface PostgresReaderOptions {
  readonly url: string
  /** If true, every read sees the state at the first read. */
  readonly frozen: boolean
}

/**
 * Opens a database for reading, even while other processes write it.
 * Errors: STORE_NOT_FOUND, STORE_FORMAT, STORE_UNAVAILABLE.
 */
export async function openPostgresReader(options: PostgresReaderOptions): Promise<StoreReader> {
  const { url, frozen } = options
  // Reads are correct even on an unsafe server.
  const connecting = {
    ...{ url, durable: false, mayIdleInTransaction: frozen },
    ...(frozen ? { deadlineMs: FROZEN_MS_MAX } : {}),
  }
  let connection: Connection | null = null
  try {
    const first = await retrying(() => Connection.open(connecting))
    connection = first
    const serverId = await requireStore(first)
    if (frozen) {
      await first.execute('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
      return new PostgresReader(serverId, new FrozenQueries(first), () => first.close())
    }
    const pool = new ReadPool(connecting, first)
    return new PostgresReader(serverId, pool, () => pool.close())
  } catch (error) {
    await connection?.close()
    throw storeErrorOf(error)
  }
}
