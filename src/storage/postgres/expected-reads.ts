import type { ExpectedReads, IdempotencyRecord, StoredItem } from '../port/store.ts'
import { idempotencyRecordOf, integer, itemOf, text } from '../sql/rows.ts'
import type { Queries } from './connection.ts'

/** Maximum bytes of items that are read in advance. Further items are read one by one. */
const ITEM_BYTES_MAX = 16 * 1_048_576

const SQL = {
  // A row per item of an existing database, with nulls if the item does not exist. Because of `LIMIT 1`, the server looks
  // up each item by `db` and `id`. With a plain join, a server without statistics reads all items of the database instead.
  items: `SELECT name, created, id, item_created, revision, item FROM (
      SELECT d.name, d.created, k.id, i.created AS item_created, i.revision, i.item,
        sum(octet_length(i.item)) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
      FROM unnest($1::text[], $2::text[]) AS k (name, id) JOIN databases AS d ON d.name = k.name
      LEFT JOIN LATERAL (SELECT created, revision, item FROM items
        WHERE db = d.created AND id = k.id LIMIT 1) AS i ON true) AS expected
    WHERE bytes IS NULL OR bytes <= ${ITEM_BYTES_MAX}`,
  records: `SELECT position, key, fingerprint, entries, timestamp, digest FROM answers
    WHERE key = ANY($1::text[])`,
} as const

/** The results of reads that were done in advance. A result that is missing here must be read. */
export class ReadAhead {
  /** Creation positions of databases by their names. */
  readonly databases = new Map<string, number>()
  /** Items, or null for missing items, by database name and id. */
  readonly #items = new Map<string, StoredItem | null>()
  readonly #records = new Map<string, IdempotencyRecord | null>()

  /** Does the `expected` reads; sends all statements at once. */
  static async of(queries: Queries, { items, keys }: ExpectedReads): Promise<ReadAhead> {
    const ahead = new ReadAhead()
    const names = [items.map(({ db }) => db), items.map(({ id }) => id)]
    const [rows, records] = await Promise.all([
      items.length === 0 ? [] : queries.rows(SQL.items, names),
      keys.length === 0 ? [] : queries.rows(SQL.records, [keys]),
    ])
    for (const [name, database, id, created, revision, item] of rows) {
      const db = text(name, 'name')
      ahead.databases.set(db, integer(database, 'created'))
      const stored = item === null ? null : itemOf([id, created, revision, item])
      ahead.#items.set(`${db}\n${text(id, 'id')}`, stored)
    }
    for (const key of keys) ahead.#records.set(key, null)
    for (const row of records) {
      const record = idempotencyRecordOf(row)
      ahead.#records.set(record.key, record)
    }
    return ahead
  }

  /** Returns undefined if the item was not read. */
  item(db: string, id: string): StoredItem | null | undefined {
    return this.#items.get(`${db}\n${id}`)
  }

  /** Returns undefined if the record was not read. */
  record(key: string): IdempotencyRecord | null | undefined {
    return this.#records.get(key)
  }
}
