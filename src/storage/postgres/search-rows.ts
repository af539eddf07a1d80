import type { Where } from '../../filter/index.ts'
import { StoreError } from '../port/errors.ts'
import { READY } from '../search/declared-indexes.ts'
import type { KeyRange } from '../search/index-keys.ts'
import type { Access, CountedAccess, ReadyIndex, Scan, SearchRows } from '../search/plan.ts'
import { integerOf, itemOf, positionsOf, type Row, text } from '../sql/rows.ts'
import type { Value } from './connection.ts'
import type { Reads } from './reads.ts'

/** Maximum positions read for one piece of a scan. */
const PIECE_ROWS = 1_000
/** Maximum index entries counted by one statement. */
const COUNT_ROWS = 100_000

/**
 * Returns the SQL of a page of index rows, plus a row of nulls if the index ($1) still exists. Without this row, the
 * index was removed, and the page may be incomplete.
 */
function whileIndexed(
  columns: 'created' | 'created, key',
  rows: string,
  order: string | null,
): string {
  const nulls =
    columns === 'created' ? 'NULL::int8 AS created' : 'NULL::int8 AS created, NULL AS key'
  return `SELECT ${columns} FROM (
      SELECT ${nulls} FROM indexes WHERE number = $1 AND path = $2 AND built = ${READY}
      UNION ALL (${rows})) AS found ${order === null ? '' : `ORDER BY ${order}`}`
}

function inIndexOrder(operator: '<' | '>', direction: 'ASC' | 'DESC'): string {
  const order = `key ${direction}, created ${direction}`
  const rows = `SELECT created, key FROM index_entries
    WHERE number = $1 AND sorts AND (key, created) ${operator} ($3, $4)
    ORDER BY ${order} LIMIT ${PIECE_ROWS}`
  return whileIndexed('created, key', rows, order)
}

function inIdOrder(operator: '>' | '>=', direction: 'ASC' | 'DESC'): string {
  return `SELECT created, id FROM items
    WHERE db = $1 AND id ${operator} $2 AND id < $3
    ORDER BY id ${direction} LIMIT ${PIECE_ROWS}`
}

/** Counts the entries at one key of an index. Returns no row if the index ($1, $2) was removed. */
const COUNT_AT_KEY = `SELECT count, last FROM indexes,
    (SELECT count(*) AS count, max(created) AS last FROM
      (SELECT created FROM index_entries WHERE number = $1 AND key = $3 AND created > $4
        ORDER BY created LIMIT ${COUNT_ROWS}) AS entries) AS counted
  WHERE number = $1 AND path = $2 AND built = ${READY}`
const COUNT_ALL = `SELECT count(*) AS count, max(created) AS last FROM
    (SELECT created FROM items WHERE db = $1 AND created > $2
      ORDER BY created LIMIT ${COUNT_ROWS}) AS rows`

function inRange({ fromIncluded, toIncluded }: KeyRange, elementsOnly: boolean): string {
  const rows = `SELECT created FROM index_entries WHERE number = $1
    AND key ${fromIncluded ? '>=' : '>'} $3 AND key ${toIncluded ? '<=' : '<'} $4
    ${elementsOnly ? 'AND NOT sorts' : ''} LIMIT $5`
  return whileIndexed('created', rows, null)
}

const SQL = {
  readyIndexes: `SELECT number, path FROM indexes WHERE db = $1 AND built = ${READY}`,
  hasMore: `SELECT created FROM index_entries
    WHERE number = $1 AND key = $2 LIMIT 1 OFFSET $3`,
  inCreationOrder: `SELECT created FROM items
    WHERE db = $1 AND created > $2 ORDER BY created LIMIT ${PIECE_ROWS}`,
  atKey: whileIndexed(
    'created',
    `SELECT created FROM index_entries
      WHERE number = $1 AND key = $3 AND created > $4 ORDER BY created LIMIT ${PIECE_ROWS}`,
    'created',
  ),
  ascending: inIndexOrder('>', 'ASC'),
  descending: inIndexOrder('<', 'DESC'),
  ids: `SELECT i.id, i.created, i.revision FROM unnest($1::int8[]) WITH ORDINALITY AS p (created, number)
    JOIN items AS i ON i.created = p.created ORDER BY p.number`,
  // Stops after the item with which the texts reach $2 bytes.
  items: `SELECT id, created, revision, item FROM (
      SELECT i.*, p.number, sum(octet_length(i.item)) OVER (ORDER BY p.number) - octet_length(i.item) AS before
      FROM unnest($1::int8[]) WITH ORDINALITY AS p (created, number)
      JOIN items AS i ON i.created = p.created) AS found
    WHERE before < $2 ORDER BY number`,
} as const

/**
 * Reads indexes and items for searches. The server evaluates no conditions: a scan gives positions, and `Search` checks
 * the items at these positions.
 */
export class PostgresSearchRows implements SearchRows {
  readonly #reads: Reads

  constructor(reads: Reads) {
    this.#reads = reads
  }

  async readyIndexes(database: number): Promise<ReadyIndex[]> {
    return this.#reads.all(SQL.readyIndexes, [database], ([number, path]) => ({
      number: Number(number),
      database,
      path: text(path, 'path'),
    }))
  }

  async hasMore({ number }: ReadyIndex, key: Uint8Array, count: number): Promise<boolean> {
    const values = [number, key, count]
    return (await this.#reads.first(SQL.hasMore, values, () => true)) ?? false
  }

  async positions(
    index: ReadyIndex,
    range: KeyRange,
    { elementsOnly, limit }: { elementsOnly: boolean; limit: number },
  ): Promise<number[] | null> {
    const sql = inRange(range, elementsOnly)
    return (await this.#indexed(sql, index, [range.from, range.to, limit]))?.map(createdOf) ?? null
  }

  /** An item may change between two statements, so only a scan without conditions is exact. */
  scan(database: number, access: Exclude<Access, { by: 'list' }>, where: Where | null): Scan {
    switch (access.by) {
      case 'creation':
        return { isExact: where === null, pieces: this.#inCreationOrder(database, access.after) }
      case 'key':
        return { isExact: false, pieces: this.#atKey(database, access) }
      case 'index':
        return { isExact: where === null, pieces: this.#inIndexOrder(access) }
      case 'id':
        return { isExact: where === null, pieces: this.#inIdOrder(database, access) }
    }
  }

  async *counts(database: number, access: CountedAccess): AsyncGenerator<number> {
    let { after } = access
    const [sql, values]: [string, Value[]] =
      access.by === 'key'
        ? [COUNT_AT_KEY, [access.index.number, access.index.path, access.key]]
        : [COUNT_ALL, [database]]
    for (;;) {
      const row = await this.#reads.first(sql, [...values, after], (row) => row)
      if (row === null && access.by === 'key') throw interrupted(access.index)
      if (row === null) return
      const counted = integerOf(row, 'count')
      yield counted
      if (counted < COUNT_ROWS) return
      after = integerOf(row.slice(1), 'last')
    }
  }

  async items(
    positions: readonly number[],
    { text, charactersMax }: { text: boolean; charactersMax: number },
  ) {
    const list = `{${positions.join(',')}}`
    if (text) return this.#reads.all(SQL.items, [list, Math.ceil(charactersMax)], itemOf)
    const withoutText = (row: Row) => ({ ...positionsOf(row), text: null })
    return this.#reads.all(SQL.ids, [list], withoutText)
  }

  async *#inCreationOrder(database: number, start: number): AsyncGenerator<readonly number[]> {
    let after = start
    for (;;) {
      const values = [database, after]
      const positions = await this.#reads.all(SQL.inCreationOrder, values, createdOf)
      yield positions
      if (positions.length < PIECE_ROWS) return
      after = positions.at(-1) ?? after
    }
  }

  async *#atKey(
    database: number,
    { index, key, after: start }: Extract<Access, { by: 'key' }>,
  ): AsyncGenerator<readonly number[]> {
    let after = start
    for (;;) {
      const rows = await this.#indexed(SQL.atKey, index, [key, after])
      if (rows === null) {
        // The index was removed during the search, so the remaining items are scanned.
        yield* this.#inCreationOrder(database, after)
        return
      }
      const positions = rows.map(createdOf)
      yield positions
      if (positions.length < PIECE_ROWS) return
      after = positions.at(-1) ?? after
    }
  }

  async *#inIndexOrder({
    index,
    descending,
  }: Extract<Access, { by: 'index' }>): AsyncGenerator<readonly number[]> {
    const sql = descending ? SQL.descending : SQL.ascending
    let after: Value[] = [descending ? Buffer.of(0xff) : Buffer.alloc(0), -1]
    for (;;) {
      const rows = await this.#indexed(sql, index, after)
      if (rows === null) throw interrupted(index)
      yield rows.map(createdOf)
      const last = rows.at(-1)
      if (rows.length < PIECE_ROWS || last === undefined) return
      after = [last[1] instanceof Uint8Array ? last[1] : Buffer.alloc(0), createdOf(last)]
    }
  }

  async *#inIdOrder(
    database: number,
    { range, descending }: Extract<Access, { by: 'id' }>,
  ): AsyncGenerator<readonly number[]> {
    let { from, to } = range
    let sql = inIdOrder('>=', descending ? 'DESC' : 'ASC')
    for (;;) {
      const rows = await this.#reads.all(sql, [database, from, to], (row) => row)
      yield rows.map(createdOf)
      const last = rows.at(-1)
      if (rows.length < PIECE_ROWS || last === undefined) return
      if (descending) to = text(last[1], 'id')
      else {
        from = text(last[1], 'id')
        sql = inIdOrder('>', 'ASC')
      }
    }
  }

  /** Returns the next rows of `index`, or null if the index was removed. */
  async #indexed(sql: string, { number, path }: ReadyIndex, after: Value[]): Promise<Row[] | null> {
    const rows = await this.#reads.all(sql, [number, path, ...after], (row) => row)
    const found = rows.filter(([created]) => created !== null)
    return found.length === rows.length ? null : found
  }
}

function createdOf(row: Row): number {
  return integerOf(row, 'created')
}

function interrupted({ path }: ReadyIndex): StoreError {
  return new StoreError(
    'SEARCH_INTERRUPTED',
    `the index ${path} was removed during the search; repeat the search`,
  )
}
