import { hash } from 'node:crypto'
import { type JsonObject, parseJson } from '../../base/json.ts'
import { INDEXES_PER_DATABASE, type IndexOutcome } from '../port/store.ts'
import {
  BUILD_CHARACTERS,
  BUILD_ITEMS,
  PURGE_ENTRIES,
  READY,
  REMOVED,
} from '../search/declared-indexes.ts'
import { keysOf } from '../search/index-keys.ts'
import { integer, type Row, text } from '../sql/rows.ts'
import type { Queries, Statement } from './connection.ts'

/** A row of the table `indexes`. */
export interface Index {
  readonly number: number
  readonly database: number
  readonly path: string
  readonly built: number
}

const SQL = {
  declarations: 'SELECT number, db, path, built FROM indexes ORDER BY number',
  setDigest: 'UPDATE node SET indexes = $1',
  declare: 'INSERT INTO indexes (number, db, path, built) VALUES ($1, $2, $3, $4)',
  setBuilt: 'UPDATE indexes SET built = $2 WHERE number = $1',
  forget: 'DELETE FROM indexes WHERE number = $1',
  items: `SELECT created, item FROM (
      SELECT created, item, sum(octet_length(item)) OVER (ORDER BY created) - octet_length(item) AS before
      FROM (SELECT created, item FROM items
        WHERE db = $1 AND created > $2 ORDER BY created LIMIT $3) AS found) AS step
    WHERE before < $4 ORDER BY created`,
  addEntries: `INSERT INTO index_entries (number, key, created, sorts)
    SELECT * FROM unnest($1::int8[], $2::bytea[], $3::int8[], $4::boolean[])`,
  removeEntries: 'DELETE FROM index_entries WHERE created = ANY($1::int8[])',
  purge: `WITH purged AS (DELETE FROM index_entries WHERE (number, key, created) IN (
      SELECT number, key, created FROM index_entries
      WHERE number = $1 LIMIT ${PURGE_ENTRIES}) RETURNING 1)
    SELECT count(*) FROM purged`,
} as const

/**
 * Returns the digest of all declarations, which is stored in `node.indexes`. By the digest, other processes detect that
 * the declarations have changed, and verification detects a change that did not update the digest.
 */
export function digestOf(indexes: readonly Index[]): string {
  const lines = indexes.map(
    ({ number, database, path, built }) => `${number} ${database} ${built} ${path}`,
  )
  return hash('sha256', lines.join('\n'), 'hex')
}

/** Reads the declarations, sorted by number. */
export async function readIndexes(queries: Queries): Promise<Index[]> {
  const rows = await queries.rows(SQL.declarations, [])
  return rows.map(([number, database, path, built]) => ({
    number: integer(number, 'number'),
    database: integer(database, 'db'),
    path: text(path, 'path'),
    built: integer(built, 'built'),
  }))
}

export interface Keyed {
  readonly number: number
  readonly key: Uint8Array
  readonly created: number
  readonly sorts: boolean
}

/** Returns the entries of an item in the indexes whose build has reached the item. */
export function entriesOf(indexes: readonly Index[], created: number, item: string): Keyed[] {
  const reached = indexes.filter(({ built }) => created <= built)
  if (reached.length === 0) return []
  const value: JsonObject = parseJson(item)
  return reached.flatMap(({ number, path }) =>
    keysOf(value, path.split('.')).map(({ key, sorts }) => ({ number, key, created, sorts })),
  )
}

/** Returns the columns number, key, created and sorts as the values of array parameters. */
export function columnsOf(entries: readonly Keyed[]): string[] {
  const list = (convert: (entry: Keyed) => string | number | boolean) =>
    `{${entries.map(convert).join(',')}}`
  return [
    list(({ number }) => number),
    list(({ key }) => `"\\\\x${Buffer.from(key).toString('hex')}"`),
    list(({ created }) => created),
    list(({ sorts }) => sorts),
  ]
}

export function addEntries(entries: readonly Keyed[]): Statement {
  return { text: SQL.addEntries, values: [...columnsOf(entries)] }
}

export function removeEntries(created: readonly number[]): Statement {
  return { text: SQL.removeEntries, values: [`{${created.join(',')}}`] }
}

/** Returns the statements that store `built` of the `changed` indexes, and the digest of `all` declarations. */
export function setBuilt(changed: readonly Index[], all: readonly Index[]): Statement[] {
  return [
    ...changed.map(({ number, built }) => ({ text: SQL.setBuilt, values: [number, built] })),
    { text: SQL.setDigest, values: [digestOf(all)] },
  ]
}

/** Returns the declarations with all indexes of the given databases marked as removed. */
export function withoutDatabases(
  indexes: readonly Index[],
  databases: readonly number[],
): readonly Index[] {
  return indexes.map((index) =>
    databases.includes(index.database) && index.built !== REMOVED
      ? { ...index, built: REMOVED }
      : index,
  )
}

/** Declares or removes an index. Call in a transaction that has locked the store. */
export async function changeIndex(
  queries: Queries,
  { database, path }: { readonly database: number; readonly path: string },
  change: 'add' | 'remove',
): Promise<IndexOutcome> {
  const all = await readIndexes(queries)
  const ofDatabase = all.filter((each) => each.database === database && each.built !== REMOVED)
  const existing = ofDatabase.find((each) => each.path === path)
  if (change === 'remove') {
    if (existing === undefined) return 'missing'
    await replace(queries, all, { ...existing, built: REMOVED })
    return 'done'
  }
  if (existing !== undefined) return 'exists'
  if (ofDatabase.length >= INDEXES_PER_DATABASE) return 'too-many'
  const index = { number: (all.at(-1)?.number ?? 0) + 1, database, path, built: -1 }
  await queries.rows(SQL.declare, [index.number, database, path, index.built])
  await queries.rows(SQL.setDigest, [digestOf([...all, index])])
  return 'done'
}

async function replace(queries: Queries, all: readonly Index[], index: Index) {
  const now = all.map((each) => (each.number === index.number ? index : each))
  for (const { text, values } of setBuilt([index], now)) await queries.rows(text, values)
}

/** Returns whether an index is incomplete or being removed. */
export function isWorkDue(indexes: readonly Index[]): boolean {
  return indexes.some(({ built }) => built !== READY)
}

/**
 * Does a bounded amount of building, or of removing. Call in a transaction that has locked the store. Entries and
 * `built` are committed together, so a crash leaves an index that is correct up to `built`.
 */
export async function workOnIndexes(queries: Queries): Promise<void> {
  const all = await readIndexes(queries)
  const removed = all.find(({ built }) => built === REMOVED)
  if (removed !== undefined) {
    const [row] = await queries.rows(SQL.purge, [removed.number])
    if (Number(row?.[0]) < PURGE_ENTRIES) {
      await queries.rows(SQL.forget, [removed.number])
      const left = all.filter((each) => each !== removed)
      await queries.rows(SQL.setDigest, [digestOf(left)])
    }
  }
  const unfinished = all.find(({ built }) => built !== READY && built !== REMOVED)
  if (unfinished === undefined) return
  const left = removed === undefined ? all : await readIndexes(queries)
  await replace(queries, left, await build(queries, unfinished))
}

async function build(queries: Queries, index: Index): Promise<Index> {
  const values = [index.database, index.built, BUILD_ITEMS, BUILD_CHARACTERS]
  const items = (await queries.rows(SQL.items, values)).map(([created, item]: Row) => ({
    created: integer(created, 'created'),
    text: text(item, 'item'),
  }))
  const entries = items.flatMap(({ created, text }) =>
    entriesOf([{ ...index, built: READY }], created, text),
  )
  if (entries.length > 0) {
    const { text, values } = addEntries(entries)
    await queries.rows(text, values)
  }
  let bytes = 0
  for (const { text } of items) bytes += Buffer.byteLength(text)
  // The page has the last items if it has fewer items than the limit and has not reached the size limit.
  const isLast = items.length < BUILD_ITEMS && bytes < BUILD_CHARACTERS
  return { ...index, built: isLast ? READY : (items.at(-1)?.created ?? READY) }
}
