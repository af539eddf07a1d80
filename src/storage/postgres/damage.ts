import { StoreError } from '../port/errors.ts'
import { PAGE_CHARACTERS } from '../port/store.ts'
import { READY, REMOVED } from '../search/declared-indexes.ts'
import { integer, text } from '../sql/rows.ts'
import { STRAY_ROWS } from '../sql/stray-rows.ts'
import { INDEX_PARTS, TABLE_NAMES } from './catalog.ts'
import type { Queries } from './connection.ts'
import { storeErrorOf } from './errors.ts'
import { columnsOf, digestOf, entriesOf, type Index, readIndexes } from './indexes.ts'

const ITEMS_PER_PAGE = 1_000

const SQL = {
  digest: 'SELECT indexes FROM node',
  lastItem: 'SELECT max(created) FROM items',
  database: 'SELECT name FROM databases WHERE created = $1',
  items: `SELECT created, item FROM (
      SELECT created, item, sum(octet_length(item)) OVER (ORDER BY created) - octet_length(item) AS before
      FROM (SELECT created, item FROM items WHERE db = $1 AND created > $2 AND created <= $3
        ORDER BY created LIMIT ${ITEMS_PER_PAGE}) AS found) AS page
    WHERE before < ${PAGE_CHARACTERS} ORDER BY created`,
  missing: `SELECT wanted.created
    FROM unnest($1::int8[], $2::bytea[], $3::int8[], $4::boolean[]) AS wanted (number, key, created, sorts)
    LEFT JOIN index_entries AS e ON e.number = wanted.number AND e.key = wanted.key
      AND e.created = wanted.created AND e.sorts = wanted.sorts
    WHERE e.created IS NULL LIMIT 1`,
  count: 'SELECT count(*) FROM index_entries WHERE number = $1',
  nextNumber: 'SELECT min(number) FROM index_entries WHERE number > $1',
  invalid: `SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
    JOIN pg_class AS t ON t.oid = i.indrelid
    WHERE NOT i.indisvalid AND t.relname = ANY('{${TABLE_NAMES.join(',')}}') LIMIT 1`,
} as const

/**
 * Checks, in constant memory, the data derived from other tables: the server's indexes, the declared indexes and their
 * entries. Finds stray rows too. Returns the first difference, or null.
 */
export async function damageOf(queries: Queries): Promise<string | null> {
  return (
    (await physicalDamage(queries)) ??
    (await strayRows(queries)) ??
    (await declarationsDiffer(queries)) ??
    (await entriesDiffer(queries))
  )
}

/** Finds an index of the server that is invalid or damaged. */
export async function physicalDamage(queries: Queries): Promise<string | null> {
  const invalid = await invalidIndex(queries)
  if (invalid !== null) return invalid
  for (const index of INDEX_PARTS) {
    if (await isDamaged(queries, index)) {
      return `the index ${index.name} of the database is damaged: REINDEX it`
    }
  }
  return null
}

/**
 * Compares an index with its table. The keys in the index must be the keys in the table, and both the keys in the index
 * and the keys of the rows to which it refers must be in order. Then each key refers to the row with this key. The
 * extension amcheck checks more, but only a superuser can install it.
 */
async function isDamaged(
  queries: Queries,
  { name, table, columns, where }: (typeof INDEX_PARTS)[number],
): Promise<boolean> {
  const key = `ROW(${columns})`
  const keys = 'count(*), coalesce(sum(hash_record_extended(key, 0)), 0)'
  // A scan of a sample reads the table; the ordered reads use the index, because sorting is off.
  const inTable = `SELECT ${keys}, 0 FROM (SELECT ${key} AS key FROM ${table}
    TABLESAMPLE SYSTEM (100) WHERE ${where}) AS rows`
  const ordered = `SELECT ${keys}, count(*) FILTER (WHERE before > key)
    FROM (SELECT ${key} AS key, lag(${key}) OVER (ORDER BY ${columns}) AS before
      FROM ${table} WHERE ${where}) AS rows`
  try {
    const found = await queries.script(`
      SET LOCAL enable_sort = off; SET LOCAL enable_incremental_sort = off;
      SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexonlyscan = on;
      ${inTable}; ${ordered};
      SET LOCAL enable_indexonlyscan = off; ${ordered};
      SET LOCAL enable_sort = on; SET LOCAL enable_incremental_sort = on;
      SET LOCAL enable_bitmapscan = on; SET LOCAL enable_indexonlyscan = on`)
    const [one, ...others] = found.flat().map((row) => row.join(' '))
    return others.length !== 2 || others.some((other) => other !== one)
  } catch (error) {
    const converted = storeErrorOf(error)
    if (!(converted instanceof StoreError) || converted.code !== 'STORE_DAMAGED') throw converted
    throw new StoreError('STORE_DAMAGED', `index ${name}: ${converted.message}`, { cause: error })
  }
}

async function strayRows(queries: Queries): Promise<string | null> {
  for (const { what, sql } of STRAY_ROWS) {
    const [row] = await queries.rows(sql, [])
    if (row !== undefined) return `${what} ${row[0]}`
  }
  return null
}

/** Finds an index that the server does not use because it is invalid, for example after a failed REINDEX. */
async function invalidIndex(queries: Queries): Promise<string | null> {
  const [row] = await queries.rows(SQL.invalid, [])
  return row === undefined ? null : `the index ${row[0]} of the database is invalid: REINDEX it`
}

async function declarationsDiffer(queries: Queries): Promise<string | null> {
  const indexes = await readIndexes(queries)
  const [row] = await queries.rows(SQL.digest, [])
  if (row?.[0] !== digestOf(indexes)) return 'the indexes differ from their declarations'
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

async function entriesDiffer(queries: Queries): Promise<string | null> {
  const indexes = await readIndexes(queries)
  const known = new Set(indexes.map(({ number }) => number))
  for (let after = -(2 ** 52); ; ) {
    const [row] = await queries.rows(SQL.nextNumber, [after])
    if (typeof row?.[0] !== 'number') break
    after = row[0]
    if (!known.has(after)) return `there are entries of an unknown index, ${after}`
  }
  for (const index of indexes) {
    const difference = index.built === REMOVED ? null : await indexDiffers(queries, index)
    if (difference !== null) return `index ${index.number} on ${index.path} ${difference}`
  }
  return null
}

/**
 * Compares an index with its items: looks up every entry that an item should have, and compares the number of entries.
 */
async function indexDiffers(queries: Queries, index: Index): Promise<string | null> {
  let count = 0
  for (let after = -1; ; ) {
    const rows = await queries.rows(SQL.items, [index.database, after, index.built])
    if (rows.length === 0) break
    const wanted = rows.flatMap(([created, item]) =>
      entriesOf([index], integer(created, 'created'), text(item, 'item')),
    )
    const [missing] = await queries.rows(SQL.missing, [...columnsOf(wanted)])
    if (missing !== undefined) return `lacks an entry of the item created at packed ${missing[0]}`
    count += wanted.length
    after = integer(rows.at(-1)?.[0], 'created')
  }
  const [row] = await queries.rows(SQL.count, [index.number])
  return row?.[0] === count ? null : `has ${row?.[0]} entries instead of ${count}`
}
