import { DatabaseSync } from 'node:sqlite'
import { StoreError } from '../errors.ts'
import { additionTables, fillAdditions } from './additions.ts'
import { settleEarlyLayout } from './legacy-schema.ts'

/** Marks the file as a daicho store ("daic" in ASCII). */
const APPLICATION_ID = 0x64616963
/** The layout below. A file with a higher number was written by a newer daicho. */
const FORMAT_VERSION = 2

/**
 * One store is one file. Positions are packed (`chain/position.ts`).
 *
 * - `node`: one row, whose databases these are.
 * - `blocks`: the node's own chain. `body` holds the entries' canonical texts, one a line (canonical JSON has no newline);
 *   `timestamps` one integer a line; `blinds` and `commitments` 32 bytes per entry.
 * - `databases`: named by the position that created them, so a name used again is another database.
 * - `items`: in the order of creation, so that new ones are appended; found by id through an index.
 * - `dropped`: deleted databases whose items still take room; removed piece by piece.
 */
const TABLES = `
  CREATE TABLE node (serverid INTEGER NOT NULL) STRICT;
  CREATE TABLE databases (created INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
  CREATE TABLE dropped (db INTEGER PRIMARY KEY) STRICT;
`

const BLOCKS_AND_ITEMS = `
  CREATE TABLE blocks (
    height INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    prev_id TEXT,
    nonce INTEGER NOT NULL,
    root TEXT NOT NULL,
    body TEXT NOT NULL,
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
`

/**
 * Makes the tables in an empty file, or checks that they are ours and not too new. A file of an older
 * format is brought up to this one, in one transaction: a crash leaves it as it was.
 * Errors: STORE_FOREIGN, STORE_TOO_NEW; as `expectLayout`.
 */
export function prepareSchema(database: DatabaseSync, path: string, serverId: number): void {
  const version = checkedVersion(database, path)
  if (version === 0) {
    database.exec('BEGIN IMMEDIATE')
    database.exec(TABLES)
    database.exec(BLOCKS_AND_ITEMS)
    database.exec(additionTables())
    database.prepare('INSERT INTO node (serverid) VALUES (?)').run(serverId)
    database.exec(`PRAGMA application_id = ${APPLICATION_ID}`)
    database.exec(`PRAGMA user_version = ${FORMAT_VERSION}`)
    database.exec('COMMIT')
    return
  }
  const owner = ownerOf(database)
  if (owner !== serverId) {
    throw new StoreError(
      'STORE_FOREIGN',
      `${path} belongs to server id ${owner}, but the key beside it is that of ${serverId}`,
    )
  }
  if (version < FORMAT_VERSION) upgrade(database, serverId)
  expectLayout(database)
}

function upgrade(database: DatabaseSync, serverId: number): void {
  database.exec('BEGIN IMMEDIATE')
  try {
    settleEarlyLayout(database, BLOCKS_AND_ITEMS)
    database.exec(additionTables())
    fillAdditions(database, serverId)
    database.exec(`PRAGMA user_version = ${FORMAT_VERSION}`)
    database.exec('COMMIT')
  } catch (error) {
    database.exec('ROLLBACK')
    throw error
  }
}

/**
 * The format version of the file, 0 when it is empty.
 * Errors: STORE_FOREIGN for another program's file, STORE_TOO_NEW.
 */
export function checkedVersion(database: DatabaseSync, path: string): number {
  const version = pragma(database, 'user_version')
  const application = pragma(database, 'application_id')
  const tables = database.prepare('SELECT count(*) AS n FROM sqlite_schema').get()
  if (version === 0 && application === 0 && tables?.n === 0) return 0
  if (application !== APPLICATION_ID) {
    throw new StoreError('STORE_FOREIGN', `${path} is not a daicho store`)
  }
  if (version > FORMAT_VERSION) {
    throw new StoreError(
      'STORE_TOO_NEW',
      `${path} has format ${version}; this daicho reads up to ${FORMAT_VERSION}: use a newer one`,
    )
  }
  return version
}

/** For whoever cannot upgrade a file, only read it. Errors: as `checkedVersion`, STORE_TOO_OLD; as `expectLayout`. */
export function checkReadable(database: DatabaseSync, path: string): void {
  const version = checkedVersion(database, path)
  if (version === 0) throw new StoreError('STORE_NOT_FOUND', `the store at ${path} is empty`)
  if (version === FORMAT_VERSION) {
    expectLayout(database)
    return
  }
  throw new StoreError(
    'STORE_TOO_OLD',
    `${path} has format ${version}: start the node once, which brings it to ${FORMAT_VERSION}`,
  )
}

/** What only compiles where every table and column is; made when it is first needed. */
let layout: string | null = null

/** Queries are prepared when they are used: what is missing is to be known before. Errors: the driver's. */
function expectLayout(database: DatabaseSync): void {
  layout ??= layoutQuery()
  database.prepare(layout)
}

function layoutQuery(): string {
  const model = new DatabaseSync(':memory:')
  model.exec(TABLES + BLOCKS_AND_ITEMS + additionTables())
  const tables = model
    .prepare(
      `SELECT 'SELECT 1 FROM ' || m.name || ' WHERE ' || group_concat(c.name, '||') AS query
        FROM sqlite_schema m JOIN pragma_table_info(m.name) c
        WHERE m.type = 'table' GROUP BY m.name`,
    )
    .all()
  model.close()
  return tables.map(({ query }) => query).join(' UNION ALL ')
}

/** The server id in `node`. Errors: STORE_DAMAGED when there is not exactly one. */
export function ownerOf(database: DatabaseSync): number {
  const rows = database.prepare('SELECT serverid FROM node').all()
  const owner = rows[0]?.serverid
  if (rows.length !== 1 || typeof owner !== 'number') {
    throw new StoreError('STORE_DAMAGED', 'table node does not hold exactly one server id')
  }
  return owner
}

function pragma(database: DatabaseSync, name: string): number {
  const value = database.prepare(`PRAGMA ${name}`).get()?.[name]
  return typeof value === 'number' ? value : 0
}
