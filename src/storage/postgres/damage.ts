import { StoreError } from '../port/errors.ts'
import { INDEX_PARTS, TABLE_NAMES } from './catalog.ts'
import type { Queries } from './connection.ts'
import { toStoreError } from './errors.ts'

const SQL = {
  invalid: `SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
    JOIN unnest('{${TABLE_NAMES.join(',')}}'::text[]) AS named (name) ON to_regclass(name) = i.indrelid
    WHERE NOT i.indisvalid LIMIT 1`,
} as const

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
    const converted = toStoreError(error)
    if (!(converted instanceof StoreError) || converted.code !== 'STORE_DAMAGED') throw converted
    throw new StoreError('STORE_DAMAGED', `index ${name}: ${converted.message}`, { cause: error })
  }
}

/** Finds an index that the server does not use because it is invalid, for example after a failed REINDEX. */
async function invalidIndex(queries: Queries): Promise<string | null> {
  const [row] = await queries.rows(SQL.invalid, [])
  return row === undefined ? null : `the index ${row[0]} of the database is invalid: REINDEX it`
}
