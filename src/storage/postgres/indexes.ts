import type { IndexEntry, IndexRows } from '../sql/indexes.ts'
import { integer } from '../sql/rows.ts'
import type { Queries, Statement } from './connection.ts'

const SQL = {
  addEntries: `INSERT INTO index_entries (number, key, created, sorts)
    SELECT * FROM unnest($1::int8[], $2::bytea[], $3::int8[], $4::boolean[])`,
  removeEntries: 'DELETE FROM index_entries WHERE created = ANY($1::int8[])',
  missing: `SELECT wanted.created
    FROM unnest($1::int8[], $2::bytea[], $3::int8[], $4::boolean[]) AS wanted (number, key, created, sorts)
    LEFT JOIN index_entries AS e ON e.number = wanted.number AND e.key = wanted.key
      AND e.created = wanted.created AND e.sorts = wanted.sorts
    WHERE e.created IS NULL LIMIT 1`,
} as const

/** Returns the columns number, key, created and sorts as the values of array parameters. */
function columns(entries: readonly IndexEntry[]): string[] {
  const list = (convert: (entry: IndexEntry) => string | number | boolean) =>
    `{${entries.map(convert).join(',')}}`
  return [
    list(({ number }) => number),
    list(({ key }) => `"\\\\x${Buffer.from(key).toString('hex')}"`),
    list(({ created }) => created),
    list(({ sorts }) => sorts),
  ]
}

export function addEntries(entries: readonly IndexEntry[]): Statement {
  return { text: SQL.addEntries, values: columns(entries) }
}

export function removeEntries(created: readonly number[]): Statement {
  return { text: SQL.removeEntries, values: [`{${created.join(',')}}`] }
}

export function indexRows(queries: Pick<Queries, 'rows'>): IndexRows {
  return {
    rows: (text, values) => queries.rows(text, values),
    async addEntries(entries) {
      const { text, values } = addEntries(entries)
      await queries.rows(text, values)
    },
    async missingEntry(entries) {
      const [missing] = await queries.rows(SQL.missing, columns(entries))
      return missing === undefined ? null : integer(missing[0], 'created')
    },
  }
}
