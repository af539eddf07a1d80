import { hash } from 'node:crypto'
import { type JsonObject, parseJson } from '../../base/json.ts'
import { INDEXES_PER_DATABASE, type IndexOutcome } from '../port/store.ts'
import {
  BUILD_BYTES,
  BUILD_ITEMS,
  PURGE_ENTRIES,
  READY,
  REMOVED,
} from '../search/declared-indexes.ts'
import { toIndexKeys } from '../search/index-keys.ts'
import type { SqlRows, SqlStatement } from './queries.ts'
import { integer, type Row, text } from './rows.ts'

/** A row of the table `indexes`. The index contains the items created up to `built`. */
export interface Index {
  readonly number: number
  readonly database: number
  readonly path: string
  readonly built: number
}

/** A row of the table `index_entries`. */
export interface IndexEntry {
  readonly number: number
  readonly key: Uint8Array
  readonly created: number
  readonly sorts: boolean
}

/** The rows of indexes. Engines write and find many entries at once in different ways. */
export interface IndexRows extends SqlRows {
  addEntries(entries: readonly IndexEntry[]): Promise<void>
  /** Returns the creation position of the item of the first entry that is not stored, or null. */
  missingEntry(entries: readonly IndexEntry[]): Promise<number | null>
}

export const DECLARATIONS = 'SELECT number, db, path, built FROM indexes ORDER BY number'

/** Items of a database after a position, at most $3 items, and no more after $4 bytes. */
const ITEMS = `SELECT created, item FROM (
    SELECT created, item, sum(octet_length(item)) OVER (ORDER BY created) - octet_length(item) AS before
    FROM (SELECT created, item FROM items
      WHERE db = $1 AND created > $2 ORDER BY created LIMIT $3) AS found) AS step
  WHERE before < $4 ORDER BY created`

const SQL = {
  setDigest: 'UPDATE node SET indexes = $1',
  declare: 'INSERT INTO indexes (number, db, path, built) VALUES ($1, $2, $3, $4)',
  setBuilt: 'UPDATE indexes SET built = $2 WHERE number = $1',
  forget: 'DELETE FROM indexes WHERE number = $1',
  purge: `DELETE FROM index_entries WHERE (number, key, created) IN (
    SELECT number, key, created FROM index_entries WHERE number = $1 LIMIT ${PURGE_ENTRIES}) RETURNING 1`,
} as const

/**
 * Returns the digest of all declarations, which is stored in `node.indexes`. By the digest, other processes detect that
 * the declarations have changed, and verification detects a change that did not update the digest.
 */
export function digestIndexes(indexes: readonly Index[]): string {
  const lines = indexes.map(
    ({ number, database, path, built }) => `${number} ${database} ${built} ${path}`,
  )
  return hash('sha256', lines.join('\n'), 'hex')
}

export function toIndex([number, database, path, built]: Row): Index {
  return {
    number: integer(number, 'number'),
    database: integer(database, 'db'),
    path: text(path, 'path'),
    built: integer(built, 'built'),
  }
}

/** Reads the declarations, sorted by number. */
export async function readIndexes(queries: SqlRows): Promise<Index[]> {
  return (await queries.rows(DECLARATIONS, [])).map(toIndex)
}

/** Reads the next items of a database, in the order of their creation. */
export async function readItems(
  queries: SqlRows,
  [database, after]: readonly [number, number],
  { items, bytes }: { readonly items: number; readonly bytes: number },
): Promise<{ created: number; text: string }[]> {
  const rows = await queries.rows(ITEMS, [database, after, items, bytes])
  return rows.map(([created, item]) => ({
    created: integer(created, 'created'),
    text: text(item, 'item'),
  }))
}

/** Returns the entries of an item in the indexes whose build has reached the item. */
export function indexEntries(
  indexes: readonly Index[],
  created: number,
  item: string,
): IndexEntry[] {
  const reached = indexes.filter(({ built }) => created <= built)
  if (reached.length === 0) return []
  const value: JsonObject = parseJson(item)
  return reached.flatMap(({ number, path }) =>
    toIndexKeys(value, path.split('.')).map(({ key, sorts }) => ({ number, key, created, sorts })),
  )
}

/** Returns the statements that store `built` of the `changed` indexes, and the digest of `all` declarations. */
export function setBuilt(changed: readonly Index[], all: readonly Index[]): SqlStatement[] {
  return [
    ...changed.map(({ number, built }) => ({ text: SQL.setBuilt, values: [number, built] })),
    { text: SQL.setDigest, values: [digestIndexes(all)] },
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
  queries: SqlRows,
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
  await queries.rows(SQL.setDigest, [digestIndexes([...all, index])])
  return 'done'
}

async function replace(queries: SqlRows, all: readonly Index[], index: Index): Promise<void> {
  const now = all.map((each) => (each.number === index.number ? index : each))
  for (const { text, values } of setBuilt([index], now)) await queries.rows(text, values)
}

/** Returns whether an index is incomplete or being removed. */
export function isIndexWorkDue(indexes: readonly Index[]): boolean {
  return indexes.some(({ built }) => built !== READY)
}

/**
 * Does a bounded amount of building, or of removing. Call in a transaction that has locked the store. `build` does a
 * step of a build, and returns the index with the state that it has reached. Entries and `built` are committed together,
 * so a crash leaves an index that is correct up to `built`.
 */
export async function advanceIndexes(
  queries: IndexRows,
  build: (index: Index) => Promise<Index> = (index) => buildStep(queries, index),
): Promise<void> {
  let all = await readIndexes(queries)
  const removed = all.find(({ built }) => built === REMOVED)
  if (removed !== undefined) {
    const purged = await queries.rows(SQL.purge, [removed.number])
    if (purged.length < PURGE_ENTRIES) {
      await queries.rows(SQL.forget, [removed.number])
      all = all.filter((each) => each !== removed)
      await queries.rows(SQL.setDigest, [digestIndexes(all)])
    }
  }
  const unfinished = all.find(({ built }) => built !== READY && built !== REMOVED)
  if (unfinished === undefined) return
  const index = await build(unfinished)
  if (index.built !== unfinished.built) await replace(queries, all, index)
}

async function buildStep(queries: IndexRows, index: Index): Promise<Index> {
  const { entries, built } = await readEntries(queries, index, BUILD_ITEMS)
  if (entries.length > 0) await queries.addEntries(entries)
  return { ...index, built }
}

/** Returns the entries of at most `count` items after `index.built`, and the position up to which they reach. */
export async function readEntries(
  queries: SqlRows,
  index: Index,
  count: number,
): Promise<{ readonly entries: IndexEntry[]; readonly built: number }> {
  const limits = { items: count, bytes: BUILD_BYTES }
  const items = await readItems(queries, [index.database, index.built], limits)
  const entries = items.flatMap(({ created, text }) =>
    indexEntries([complete(index)], created, text),
  )
  let bytes = 0
  for (const { text } of items) bytes += Buffer.byteLength(text)
  // The page has the last items if it has fewer items than the limit and has not reached the size limit.
  const isLast = items.length < count && bytes < BUILD_BYTES
  return { entries, built: isLast ? READY : (items.at(-1)?.created ?? READY) }
}

export function complete(index: Index): Index {
  return { ...index, built: READY }
}
