import { StoreError } from '../port/errors.ts'
import { schemaDifference } from './catalog.ts'
import type { Connection } from './connection.ts'
import { isDuplicateTable, messageOf } from './errors.ts'
import { digestOf } from './indexes.ts'

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

/**
 * The migrations. Each migration is one statement, is applied once, in this order, and never changes. `catalog.ts`
 * describes the resulting schema.
 *
 * The tables and columns equal the tables of the SQLite engine (`sqlite/schema.ts`), with these differences:
 *
 * - `node`: each transaction that appends locks the row of this table. The primary key of `blocks` guarantees one chain
 *   even without that lock. `indexes` is the digest of the declared indexes.
 * - `indexes`: `built` of a removed index is -2 until its entries are removed.
 * - JSON is stored as text, because `jsonb` would reorder members and rewrite numbers.
 */
const MIGRATIONS: readonly string[] = [
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
  `CREATE TABLE deleted_databases (created int8 NOT NULL, name ${TEXT} NOT NULL, PRIMARY KEY (created))`,
  'CREATE INDEX deleted_by_name ON deleted_databases (name)',
  `CREATE TABLE shared_texts (name ${TEXT} NOT NULL, version int8 NOT NULL, text ${TEXT}, PRIMARY KEY (name))`,
  // See `isOldStateVisible` in `compaction.ts`.
  'CREATE TABLE vacuum_probe (number int8 NOT NULL)',
  // ANALYZE would copy values of these columns to the statistics, where an erasure does not find them.
  ...UNSAMPLED.map(([table, columns]) => {
    const changes = columns.map((column) => `ALTER COLUMN ${column} SET STATISTICS 0`)
    return `ALTER TABLE ${table} ${changes.join(', ')}`
  }),
]

/** The tables besides `node`. */
export const TABLES = [
  ...['databases', 'dropped', 'blocks', 'items', 'attachments', 'superseded', 'answers'],
  ...['indexes', 'index_entries', 'tree', 'erasures', 'uncompacted', 'deleted_databases'],
  ...['blobs', 'blob_chunks', 'blob_uploads', 'vacuum_probe'],
] as const

const SQL = {
  createVersion: 'CREATE TABLE daicho_schema AS SELECT 0::int4 AS version',
  exists: `SELECT to_regclass('daicho_schema') IS NOT NULL`,
  version: 'SELECT version FROM daicho_schema',
  lockVersion: 'SELECT version FROM daicho_schema FOR UPDATE',
  owner: 'SELECT serverid FROM node',
  addOwner: 'INSERT INTO node (serverid, indexes) VALUES ($1, $2) ON CONFLICT DO NOTHING',
} as const

/**
 * Applies the missing migrations, and makes `serverId` the owner of the store unless the store has an owner. A crash
 * leaves either the old or the new version, so the call can be repeated.
 * Errors: STORE_FOREIGN, STORE_TOO_NEW; STORE_DAMAGED if the schema differs; errors of the server.
 */
export async function prepareSchema(connection: Connection, serverId: number): Promise<void> {
  const version = await storedVersion(connection)
  // Checks the owner first, so that a database of another node is not changed.
  if (version !== null && version > 0) {
    requireKnown(version)
    const [row] = await connection.rows(SQL.owner, [])
    if (row !== undefined) requireOwner(row[0], serverId)
  }
  if (version === null) {
    await connection.execute(SQL.createVersion).catch((error: unknown) => {
      // Another process is creating the table at the same time.
      if (!isDuplicateTable(error)) throw error
    })
  }
  if ((await storedVersion(connection)) !== MIGRATIONS.length) await migrate(connection)
  await connection.rows(SQL.addOwner, [serverId, digestOf([])])
  requireOwner(await ownerOf(connection), serverId)
  await requireSchema(connection)
}

/** Throws if the schema differs from the schema of a new store. Errors: STORE_DAMAGED. */
async function requireSchema(connection: Connection): Promise<void> {
  const difference = await schemaDifference(connection)
  if (difference !== null) throw new StoreError('STORE_DAMAGED', difference)
}

/** Throws unless `serverId` is the owner. Errors: STORE_FOREIGN. */
function requireOwner(owner: unknown, serverId: number): void {
  if (owner === serverId) return
  const message = `the database belongs to server id ${owner}, but the key belongs to server id ${serverId}`
  throw new StoreError('STORE_FOREIGN', message)
}

/** Applies the missing migrations in one transaction. Concurrent processes wait for each other. */
async function migrate(connection: Connection): Promise<void> {
  await connection.execute('BEGIN')
  try {
    const [row] = await connection.rows(SQL.lockVersion, [])
    const version = Number(row?.[0])
    requireKnown(version)
    for (const ddl of MIGRATIONS.slice(version)) await connection.execute(ddl)
    await connection.execute(`UPDATE daicho_schema SET version = ${MIGRATIONS.length}`)
    await connection.execute('COMMIT')
  } catch (error) {
    await connection.execute('ROLLBACK').catch(() => {})
    if (!isDuplicateTable(error)) throw error
    const message = `the database contains the tables of another program: ${messageOf(error)}`
    throw new StoreError('STORE_FOREIGN', message)
  }
}

/**
 * Checks a database that is only read, and returns the server id of its owner.
 * Errors: STORE_NOT_FOUND, STORE_TOO_NEW, STORE_TOO_OLD, STORE_DAMAGED; errors of the server.
 */
export async function checkReadable(connection: Connection): Promise<number> {
  const version = await storedVersion(connection)
  if (version !== null) requireKnown(version)
  if (version === null || version === 0) throw notFound()
  if (version < MIGRATIONS.length) {
    const message = `the database has format ${version}: start the node once to upgrade it to format ${MIGRATIONS.length}`
    throw new StoreError('STORE_TOO_OLD', message)
  }
  await requireSchema(connection)
  return ownerOf(connection)
}

/** Returns the server id of the owner. Errors: STORE_DAMAGED unless there is exactly one. */
async function ownerOf(connection: Connection): Promise<number> {
  const rows = await connection.rows(SQL.owner, [])
  const owner = rows[0]?.[0]
  if (rows.length === 1 && typeof owner === 'number') return owner
  throw new StoreError('STORE_DAMAGED', 'the table `node` must contain exactly one server id')
}

function notFound(): StoreError {
  return new StoreError('STORE_NOT_FOUND', 'the database does not contain a store')
}

function requireKnown(version: number): void {
  if (version <= MIGRATIONS.length) return
  const message = `the database has format ${version}; this daicho reads up to ${MIGRATIONS.length}: use a newer daicho`
  throw new StoreError('STORE_TOO_NEW', message)
}

/** Returns the number of applied migrations, or null for a database without tables. */
async function storedVersion(connection: Connection): Promise<number | null> {
  const [exists] = await connection.rows(SQL.exists, [])
  if (exists?.[0] !== true) return null
  const [row] = await connection.rows(SQL.version, [])
  return typeof row?.[0] === 'number' ? row[0] : null
}
