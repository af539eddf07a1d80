import { PAGE_CHARACTERS } from '../port/store.ts'
import { READY, REMOVED } from '../search/declared-indexes.ts'
import {
  digestIndexes,
  type Index,
  type IndexRows,
  indexEntries,
  readIndexes,
  readItems,
} from './indexes.ts'
import type { SqlRows } from './queries.ts'
import { integer } from './rows.ts'
import { STRAY_ROWS } from './stray-rows.ts'

const PAGE = { items: 1_000, bytes: PAGE_CHARACTERS }

const SQL = {
  digest: 'SELECT indexes FROM node',
  lastItem: 'SELECT max(created) FROM items',
  database: 'SELECT name FROM databases WHERE created = $1',
  count: 'SELECT count(*) FROM index_entries WHERE number = $1',
  nextNumber: 'SELECT min(number) FROM index_entries WHERE number > $1',
} as const

/**
 * Checks, in constant memory, the rows that no comparison with the chain reaches: stray rows, the declared indexes and
 * their entries. Returns the first difference, or null.
 */
export async function derivedDamage(queries: IndexRows): Promise<string | null> {
  for (const { what, sql } of STRAY_ROWS) {
    const [row] = await queries.rows(sql, [])
    if (row !== undefined) return `${what} ${row[0]}`
  }
  const indexes = await readIndexes(queries)
  const difference =
    (await declarationsDiffer(queries, indexes)) ?? (await strayEntry(queries, indexes))
  if (difference !== null) return difference
  for (const index of indexes) {
    const difference = index.built === REMOVED ? null : await indexDiffers(queries, index)
    if (difference !== null) return `index ${index.number} on ${index.path} ${difference}`
  }
  return null
}

async function declarationsDiffer(
  queries: SqlRows,
  indexes: readonly Index[],
): Promise<string | null> {
  const [row] = await queries.rows(SQL.digest, [])
  if (row?.[0] !== digestIndexes(indexes)) return 'the indexes differ from their declarations'
  const [last] = await queries.rows(SQL.lastItem, [])
  const lastItem = last?.[0] === null ? -1 : integer(last?.[0], 'created')
  for (const { number, path, database, built } of indexes) {
    if (built === REMOVED) continue
    if (built < -1 || (built !== READY && built > lastItem)) {
      return `index ${number} on ${path} is marked as built up to an item that does not exist`
    }
    const [name] = await queries.rows(SQL.database, [database])
    if (name === undefined) return `index ${number} on ${path} belongs to no database`
  }
  return null
}

async function strayEntry(queries: SqlRows, indexes: readonly Index[]): Promise<string | null> {
  const known = new Set(indexes.map(({ number }) => number))
  for (let after = -(2 ** 52); ; ) {
    const [row] = await queries.rows(SQL.nextNumber, [after])
    if (typeof row?.[0] !== 'number') return null
    after = row[0]
    if (!known.has(after)) return `there are entries of an unknown index, ${after}`
  }
}

/**
 * Compares an index with its items: looks up every entry that an item should have, and compares the number of entries.
 * An index that is being built may have entries of further items.
 */
async function indexDiffers(queries: IndexRows, index: Index): Promise<string | null> {
  let count = 0
  for (let after = -1; ; ) {
    const items = (await readItems(queries, [index.database, after], PAGE)).filter(
      ({ created }) => created <= index.built,
    )
    const last = items.at(-1)
    if (last === undefined) break
    const wanted = items.flatMap(({ created, text }) => indexEntries([index], created, text))
    const missing = await queries.missingEntry(wanted)
    if (missing !== null) return `lacks an entry of the item created at packed ${missing}`
    count += wanted.length
    after = last.created
  }
  if (index.built !== READY) return null
  const [row] = await queries.rows(SQL.count, [index.number])
  return row?.[0] === count ? null : `has ${row?.[0]} entries instead of ${count}`
}
