import { DatabaseSync } from 'node:sqlite'
import { otherFormat, StoreError } from '../port/errors.ts'
import { digestIndexes } from '../sql/indexes.ts'

/** Marks the file as a daicho store ("daic" in ASCII). */
const APPLICATION_ID = 0x64616963
/** Format of the tables below. */
const FORMAT = 1

/**
 * One store is one file. Positions are packed (`packPosition` in `chain/entry.ts`).
 *
 * - `node`: one row, the server id of the store's owner, and the digest of the declared indexes.
 * - `databases`: identified by the position that created them, so a reused name identifies a new database.
 * - `dropped`: deleted databases that still have items. Maintenance moves the items to `superseded` step by step.
 * - `blocks`: the node's own chain. `body` contains the canonical texts of the entries, one per line, because canonical
 *   JSON has no line feed; a long body is a BLOB, compressed by Zstandard (`packBody`). `timestamps` has one integer per
 *   line. `blinds` and `commitments` have 32 bytes per entry.
 * - `items`: stored in creation order, so that new items are appended. An index finds items by id.
 * - `attachments`: one row per `create_attachment` entry that is not erased. `db` is the position that created the
 *   database. `ended` is the position of the next entry about the same name of the same item id, so at most one row of
 *   a name has no `ended`. A row is current while an item of this id that was created before the row exists, so
 *   deleting an item or a database changes no rows here.
 * - `superseded`: former revisions of items, and deletions. Their texts are in the blocks. The current revision is in
 *   `items`, so a creation writes nothing here.
 * - `deleted_databases`: all deleted databases, whose histories are kept, with the position of the deletion.
 * - `deleted_items`: deleted items, with the positions of the creation and the deletion, which can be that of their
 *   database. With `items`, it tells which items existed at any height.
 * - `answers`: idempotency records. Not derived from the chain.
 * - `indexes`: declared indexes on `path` of the items of `db`. An index is complete for items created up to `built`, or
 *   removed if `built` is -2. Maintenance removes its entries step by step, and then its row.
 * - `index_entries`: the values of each item (`search/index-keys.ts`), in the order of their keys.
 * - `tree`: the Merkle log over the headers. The row of a block contains the hashes of the nodes that its leaf
 *   completes (two on average), starting with the leaf hash. A row never changes.
 * - `erasures`: the erased entries, each with the position of the entry that erased it.
 * - `uncompacted`: the erasing entries since the file was last rewritten.
 */
const TABLES = `
  CREATE TABLE node (serverid INTEGER NOT NULL, indexes TEXT NOT NULL) STRICT;
  CREATE TABLE databases (created INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
  CREATE TABLE dropped (db INTEGER PRIMARY KEY) STRICT;
  CREATE TABLE blocks (
    height INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    prev_id TEXT,
    nonce INTEGER NOT NULL,
    root TEXT NOT NULL,
    body ANY NOT NULL,
    timestamps TEXT NOT NULL,
    blinds BLOB NOT NULL,
    commitments BLOB NOT NULL
  ) STRICT;
  CREATE TABLE items (
    created INTEGER PRIMARY KEY,
    db INTEGER NOT NULL,
    id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    item TEXT NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX items_by_id ON items (db, id);
  CREATE INDEX items_in_order ON items (db, created);
  CREATE TABLE attachments (
    position INTEGER PRIMARY KEY,
    db INTEGER NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    content_type TEXT NOT NULL,
    length INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    ended INTEGER
  ) STRICT;
  CREATE UNIQUE INDEX attachments_by_name ON attachments (db, id, name) WHERE ended IS NULL;
  CREATE INDEX attachments_in_order ON attachments (db, id, name, position);
  CREATE INDEX attachments_by_content ON attachments (sha256, length);
  CREATE TABLE superseded (
    db INTEGER NOT NULL,
    id TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (db, id, position)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE deleted_databases (
    created INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    deleted INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX deleted_by_name ON deleted_databases (name);
  CREATE TABLE deleted_items (
    db INTEGER NOT NULL,
    id TEXT NOT NULL,
    deleted INTEGER NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (db, id, deleted)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX deleted_items_in_order ON deleted_items (db, created, deleted);
  CREATE TABLE answers (
    position INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    fingerprint TEXT NOT NULL,
    entries INTEGER NOT NULL,
    timestamp INTEGER NOT NULL,
    digest TEXT NOT NULL
  ) STRICT;
  CREATE TABLE indexes (
    number INTEGER PRIMARY KEY,
    db INTEGER NOT NULL,
    path TEXT NOT NULL,
    built INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE index_entries (
    number INTEGER NOT NULL,
    key BLOB NOT NULL,
    created INTEGER NOT NULL,
    sorts INTEGER NOT NULL,
    PRIMARY KEY (number, key, created)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX index_elements ON index_entries (number, key, created) WHERE sorts = 0;
  CREATE TABLE tree (height INTEGER PRIMARY KEY, hashes BLOB NOT NULL) STRICT;
  CREATE TABLE erasures (position INTEGER PRIMARY KEY, eraser INTEGER NOT NULL) STRICT;
  CREATE INDEX erasures_in_order ON erasures (eraser);
  CREATE TABLE uncompacted (position INTEGER PRIMARY KEY) STRICT;
`

/**
 * Creates the tables in an empty file. Otherwise, checks that the file is a store of this node.
 * Errors: STORE_FOREIGN, STORE_FORMAT; STORE_DAMAGED if the schema differs.
 */
export function prepareSchema(database: DatabaseSync, path: string, serverId: number): void {
  if (isEmpty(database)) {
    database.exec('BEGIN IMMEDIATE')
    database.exec(TABLES)
    const addOwner = 'INSERT INTO node (serverid, indexes) VALUES (?, ?)'
    database.prepare(addOwner).run(serverId, digestIndexes([]))
    database.exec(`PRAGMA application_id = ${APPLICATION_ID}`)
    database.exec(`PRAGMA user_version = ${FORMAT}`)
    database.exec('COMMIT')
    return
  }
  requireStore(database, path)
  const owner = readOwner(database)
  if (owner !== serverId) {
    throw new StoreError(
      'STORE_FOREIGN',
      `${path} belongs to server id ${owner}, but the key in the folder belongs to server id ${serverId}: put back the file that was replaced`,
    )
  }
}

function isEmpty(database: DatabaseSync): boolean {
  const marks = pragma(database, 'user_version') + pragma(database, 'application_id')
  return marks === 0 && readDefinitions(database).size === 0
}

/**
 * Requires a store of FORMAT. Does not check its schema.
 * Errors: STORE_NOT_FOUND for an empty file, STORE_FOREIGN for another program's file, STORE_FORMAT.
 */
export function requireFormat(database: DatabaseSync, path: string): void {
  if (isEmpty(database)) throw new StoreError('STORE_NOT_FOUND', `the store at ${path} is empty`)
  if (pragma(database, 'application_id') !== APPLICATION_ID) {
    throw new StoreError('STORE_FOREIGN', `${path} is not a daicho store`)
  }
  const format = pragma(database, 'user_version')
  if (format !== FORMAT) throw otherFormat(path, format, FORMAT)
}

/** Requires a store with exactly the schema above. Errors: as for `requireFormat`; STORE_DAMAGED. */
export function requireStore(database: DatabaseSync, path: string): void {
  requireFormat(database, path)
  requireSchema(database, path)
}

/**
 * Checks that the schema is exactly the schema above. A trigger could copy content before it is erased, and a unique
 * index that is missing or compares differently would accept two items with the same id.
 * Errors: STORE_DAMAGED with the first difference.
 */
function requireSchema(database: DatabaseSync, path: string): void {
  const encoding = database.prepare('PRAGMA encoding').get()?.encoding
  const difference =
    encoding === 'UTF-8' ? schemaDifference(database) : `its encoding is ${encoding}`
  if (difference === null) return
  throw new StoreError('STORE_DAMAGED', `the schema of ${path} was changed: ${difference}`)
}

function schemaDifference(database: DatabaseSync): string | null {
  expectedDefinitions ??= newDefinitions()
  const expected = expectedDefinitions
  const found = readDefinitions(database)
  for (const [name, definition] of expected) {
    const stored = found.get(name)
    if (stored === undefined) return `${name} is missing`
    if (stored !== definition) return `${name} is defined as: ${stored}`
  }
  const unknown = [...found.keys()].find((name) => !expected.has(name))
  return unknown === undefined ? null : `${unknown} does not belong to a store`
}

/** Set at the first check, because a process may open many stores. */
let expectedDefinitions: ReadonlyMap<string, string> | null = null

function newDefinitions(): ReadonlyMap<string, string> {
  const database = new DatabaseSync(':memory:')
  try {
    database.exec(TABLES)
    return readDefinitions(database)
  } finally {
    database.close()
  }
}

/** Lists tables, indexes, triggers and views by type and name, each with its definition. */
function readDefinitions(database: DatabaseSync): Map<string, string> {
  const rows = database.prepare(
    'SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid',
  )
  // The index of a PRIMARY KEY or UNIQUE clause has no definition, so its table is listed instead.
  return new Map(
    rows.all().map(({ type, name, tbl_name, sql }) => {
      const definition = sql === null ? `part of table ${tbl_name}` : String(sql)
      return [`${type} ${name}`, definition.replace(/\s+/g, ' ')]
    }),
  )
}

/** Returns the server id of the owner. Errors: STORE_DAMAGED unless there is exactly one. */
export function readOwner(database: DatabaseSync): number {
  const rows = database.prepare('SELECT serverid FROM node').all()
  const owner = rows[0]?.serverid
  if (rows.length !== 1 || typeof owner !== 'number') {
    throw new StoreError('STORE_DAMAGED', 'the table `node` must contain exactly one server id')
  }
  return owner
}

function pragma(database: DatabaseSync, name: string): number {
  const value = database.prepare(`PRAGMA ${name}`).get()?.[name]
  return typeof value === 'number' ? value : 0
}
