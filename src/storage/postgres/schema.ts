import { otherFormat, StoreError } from '../port/errors.ts'
import { digestIndexes } from '../sql/indexes.ts'
import { schemaDifference } from './catalog.ts'
import type { Connection } from './connection.ts'
import { innerMessage, isDuplicateTable } from './errors.ts'

/** Type of ids, names and keys, which sort by their bytes, as in SQLite. */
const TEXT = 'text COLLATE "C"'

/** Columns with content, hashes of content, or blinds. */
const UNSAMPLED = [
  ['blocks', ['body', 'blinds']],
  ['items', ['item']],
  ['index_entries', ['key']],
  ['attachments', ['name', 'content_type', 'length', 'sha256']],
  ['answers', ['fingerprint', 'digest']],
  ['blobs', ['sha256']],
  ['blob_chunks', ['bytes']],
  ['blob_uploads', ['sha256']],
] as const

/** Format of the tables below. */
const FORMAT = 1

/**
 * The statements that create the tables. `catalog.ts` describes the result. The tables and columns equal the tables of
 * the SQLite engine (`sqlite/schema.ts`), with these differences:
 *
 * - `daicho_schema`: the format.
 * - `node`: each transaction that appends locks the row of this table. The primary key of `blocks` guarantees one chain
 *   even without that lock.
 * - JSON is stored as text, because `jsonb` would reorder members and rewrite numbers.
 */
const CREATION: readonly string[] = [
  // The first statement, so that processes that create the tables at the same time wait for each other.
  `CREATE TABLE daicho_schema AS SELECT ${FORMAT}::int4 AS version`,
  `CREATE TABLE node (serverid int8 NOT NULL, indexes ${TEXT} NOT NULL)`,
  // The index is on a constant, so the table has at most one row.
  'CREATE UNIQUE INDEX node_once ON node ((0))',
  `CREATE TABLE databases (created int8 NOT NULL, name ${TEXT} NOT NULL,
    PRIMARY KEY (created), UNIQUE (name))`,
  `CREATE TABLE dropped (db int8 NOT NULL, PRIMARY KEY (db))`,
  `CREATE TABLE blocks (height int8 NOT NULL, id ${TEXT} NOT NULL, prev_id ${TEXT},
    nonce int8 NOT NULL, root ${TEXT} NOT NULL, body ${TEXT} NOT NULL, timestamps ${TEXT} NOT NULL,
    blinds bytea NOT NULL, commitments bytea NOT NULL, PRIMARY KEY (height))`,
  `CREATE TABLE items (created int8 NOT NULL, db int8 NOT NULL, id ${TEXT} NOT NULL,
    revision int8 NOT NULL, item ${TEXT} NOT NULL,
    PRIMARY KEY (created), UNIQUE (db, id))`,
  'CREATE INDEX items_in_order ON items (db, created)',
  `CREATE TABLE attachments (position int8 NOT NULL, db int8 NOT NULL, id ${TEXT} NOT NULL,
    name ${TEXT} NOT NULL, content_type ${TEXT} NOT NULL, length int8 NOT NULL, sha256 ${TEXT} NOT NULL,
    ended int8, PRIMARY KEY (position))`,
  `CREATE UNIQUE INDEX attachments_by_name ON attachments (db, id, name) WHERE ended IS NULL`,
  'CREATE INDEX attachments_in_order ON attachments (db, id, name, position)',
  'CREATE INDEX attachments_by_content ON attachments (sha256, length)',
  `CREATE TABLE superseded (db int8 NOT NULL, id ${TEXT} NOT NULL, position int8 NOT NULL,
    PRIMARY KEY (db, id, position))`,
  `CREATE TABLE answers (position int8 NOT NULL, key ${TEXT} NOT NULL, fingerprint ${TEXT} NOT NULL,
    entries int8 NOT NULL, timestamp int8 NOT NULL, digest ${TEXT} NOT NULL,
    PRIMARY KEY (position), UNIQUE (key))`,
  `CREATE TABLE indexes (number int8 NOT NULL, db int8 NOT NULL, path ${TEXT} NOT NULL,
    built int8 NOT NULL, PRIMARY KEY (number))`,
  `CREATE TABLE index_entries (number int8 NOT NULL, key bytea NOT NULL, created int8 NOT NULL,
    sorts boolean NOT NULL, PRIMARY KEY (number, key, created))`,
  'CREATE INDEX index_entries_by_item ON index_entries (created)',
  `CREATE TABLE tree (height int8 NOT NULL, hashes bytea NOT NULL, PRIMARY KEY (height))`,
  `CREATE TABLE erasures (position int8 NOT NULL, eraser int8 NOT NULL,
    PRIMARY KEY (position))`,
  'CREATE INDEX erasures_in_order ON erasures (eraser)',
  `CREATE TABLE uncompacted (position int8 NOT NULL, PRIMARY KEY (position))`,
  `CREATE TABLE blobs (sha256 ${TEXT} NOT NULL, upload uuid NOT NULL, PRIMARY KEY (sha256))`,
  'CREATE INDEX blobs_by_upload ON blobs (upload)',
  `CREATE TABLE blob_chunks (upload uuid NOT NULL, start int8 NOT NULL, bytes bytea NOT NULL,
    PRIMARY KEY (upload, start))`,
  // Stored uncompressed, so that a part of a row can be read without the rest.
  'ALTER TABLE blob_chunks ALTER COLUMN bytes SET STORAGE EXTERNAL',
  `CREATE TABLE blob_uploads (upload uuid NOT NULL, sha256 ${TEXT}, parts boolean NOT NULL,
    expires timestamptz NOT NULL, PRIMARY KEY (upload))`,
  'CREATE INDEX blob_uploads_by_content ON blob_uploads (sha256)',
  'CREATE UNIQUE INDEX blob_uploads_in_parts ON blob_uploads (sha256) WHERE parts',
  `CREATE TABLE deleted_databases (created int8 NOT NULL, name ${TEXT} NOT NULL,
    deleted int8 NOT NULL, PRIMARY KEY (created))`,
  'CREATE INDEX deleted_by_name ON deleted_databases (name)',
  `CREATE TABLE deleted_items (db int8 NOT NULL, id ${TEXT} NOT NULL, deleted int8 NOT NULL,
    created int8 NOT NULL, PRIMARY KEY (db, id, deleted))`,
  'CREATE INDEX deleted_items_in_order ON deleted_items (db, created, deleted)',
  `CREATE TABLE shared_texts (name ${TEXT} NOT NULL, version int8 NOT NULL, text ${TEXT}, PRIMARY KEY (name))`,
  // See `isOldStateVisible` in `compaction.ts`.
  'CREATE TABLE vacuum_probe (number int8 NOT NULL)',
  // Without a primary key, the server would refuse changes while a publication includes all tables.
  'ALTER TABLE node REPLICA IDENTITY FULL',
  'ALTER TABLE vacuum_probe REPLICA IDENTITY FULL',
  // ANALYZE would copy values of these columns to the statistics, where an erasure does not find them.
  ...UNSAMPLED.map(([table, columns]) => {
    const changes = columns.map((column) => `ALTER COLUMN ${column} SET STATISTICS 0`)
    return `ALTER TABLE ${table} ${changes.join(', ')}`
  }),
]

const SQL = {
  exists: `SELECT to_regclass('daicho_schema') IS NOT NULL`,
  format: 'SELECT version FROM daicho_schema',
  owner: 'SELECT serverid FROM node',
  addOwner: 'INSERT INTO node (serverid, indexes) VALUES ($1, $2)',
} as const

/**
 * Creates the tables with `serverId` as the owner of the store in a database without them. Otherwise, checks that the
 * database contains a store of this node.
 * Errors: STORE_FOREIGN, STORE_FORMAT; STORE_DAMAGED if the schema differs; errors of the server.
 */
export async function prepareSchema(connection: Connection, serverId: number): Promise<void> {
  if ((await readFormat(connection)) === null) await createTables(connection, serverId)
  const owner = await requireStore(connection)
  if (owner === serverId) return
  const message = `the database belongs to server id ${owner}, but the key belongs to server id ${serverId}`
  throw new StoreError('STORE_FOREIGN', message)
}

/** Creates the tables in one transaction, unless another process creates them at the same time. */
async function createTables(connection: Connection, serverId: number): Promise<void> {
  await connection.execute('BEGIN')
  try {
    for (const statement of CREATION) await connection.execute(statement)
    await connection.rows(SQL.addOwner, [serverId, digestIndexes([])])
    await connection.execute('COMMIT')
  } catch (error) {
    await connection.execute('ROLLBACK').catch(() => {})
    if (!isDuplicateTable(error)) throw error
    if ((await readFormat(connection)) !== null) return
    const message = `the database contains the tables of another program: ${innerMessage(error)}`
    throw new StoreError('STORE_FOREIGN', message)
  }
}

/**
 * Requires a store with exactly the schema of `catalog.ts`, and returns the server id of its owner.
 * Errors: STORE_NOT_FOUND, STORE_FORMAT, STORE_DAMAGED; errors of the server.
 */
export async function requireStore(connection: Connection): Promise<number> {
  const format = await readFormat(connection)
  if (format === null) {
    throw new StoreError('STORE_NOT_FOUND', 'the database does not contain a store')
  }
  if (format !== FORMAT) throw otherFormat('the database', format, FORMAT)
  const difference = await schemaDifference(connection)
  if (difference !== null) throw new StoreError('STORE_DAMAGED', difference)
  const rows = await connection.rows(SQL.owner, [])
  const owner = rows[0]?.[0]
  if (rows.length === 1 && typeof owner === 'number') return owner
  throw new StoreError('STORE_DAMAGED', 'the table `node` must contain exactly one server id')
}

/** Returns the format of the tables, or null for a database without tables of daicho. */
async function readFormat(connection: Connection): Promise<number | null> {
  const [exists] = await connection.rows(SQL.exists, [])
  if (exists?.[0] !== true) return null
  const [row] = await connection.rows(SQL.format, [])
  return Number(row?.[0] ?? 0)
}
