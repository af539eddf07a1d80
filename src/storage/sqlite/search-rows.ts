import type { Where } from '../../filter/index.ts'
import { StoreError } from '../port/errors.ts'
import { READY } from '../search/declared-indexes.ts'
import type { KeyRange } from '../search/index-keys.ts'
import type { Access, CountedAccess, ReadyIndex, Scan, SearchRows } from '../search/plan.ts'
import { integerOf, itemOf, positionsOf, type Row } from '../sql/rows.ts'
import type { Reads } from './reads.ts'
import { LIMIT, type StatementCache } from './statements.ts'
import { type CompiledWhere, compileWhere } from './where-sql.ts'

/** Maximum rows read for one piece of a scan. */
const PIECE_ROWS = 1_000
/** Maximum work per piece: bytes of items, times the number of compared values. */
const PIECE_WORK = 4 * 1_048_576
/** Maximum index entries counted at once, which takes about two milliseconds. */
const COUNT_ROWS = 20_000
const MATCH_ALL: CompiledWhere = { text: '1', values: [], isExact: true }

/**
 * A scan over rows with the columns: creation position, bytes of the item, whether the item matches, and in some scans
 * `id` or `key`.
 */
interface RowScan {
  /** Returns at most PIECE_ROWS rows after the current row. */
  rows(): Iterable<Row>
  advance(row: Row): void
}

/** Reads indexes and items for searches, in the view of the store. */
export class SqliteSearchRows implements SearchRows {
  readonly #statements: StatementCache
  readonly #reads: Reads

  constructor(statements: StatementCache, reads: Reads) {
    this.#statements = statements
    this.#reads = reads
  }

  async readyIndexes(database: number): Promise<ReadyIndex[]> {
    const sql = 'SELECT number, path FROM indexes WHERE db = ? AND built = ?'
    return this.#reads.all(sql, [database, READY], ([number, path]) => ({
      number: Number(number),
      database,
      path: String(path),
    }))
  }

  async hasMore({ number }: ReadyIndex, key: Uint8Array, count: number): Promise<boolean> {
    const sql = 'SELECT 1 FROM index_entries WHERE number = ? AND key = ? LIMIT 1 OFFSET ?'
    return (await this.#reads.first(sql, [number, key, count], () => true)) ?? false
  }

  async positions(
    { number }: ReadyIndex,
    { from, fromIncluded, to, toIncluded }: KeyRange,
    { elementsOnly, limit }: { elementsOnly: boolean; limit: number },
  ): Promise<number[]> {
    const sql = `SELECT created FROM index_entries WHERE number = ?
      AND key ${fromIncluded ? '>=' : '>'} ? AND key ${toIncluded ? '<=' : '<'} ?
      ${elementsOnly ? 'AND sorts = 0' : ''} ${LIMIT}`
    return this.#reads.all(sql, [number, from, to, limit], (row) => integerOf(row, 'created'))
  }

  scan(database: number, access: Exclude<Access, { by: 'list' }>, where: Where | null): Scan {
    const filter = where === null ? MATCH_ALL : compileWhere(where, 'i.item')
    const cursor = this.#cursor(database, access, filter)
    return { isExact: filter.isExact, pieces: this.#pieces(cursor, 1 + filter.values.length) }
  }

  async *counts(database: number, access: CountedAccess): AsyncGenerator<number> {
    let { after } = access
    const [rows, values] =
      access.by === 'key'
        ? ['index_entries WHERE number = ? AND key = ?', [access.index.number, access.key]]
        : ['items WHERE db = ?', [database]]
    const query = this.#statements.get(
      `SELECT count(*) AS count, max(created) AS last FROM
        (SELECT created FROM ${rows} AND created > ? ORDER BY created LIMIT ${COUNT_ROWS})`,
    )
    for (;;) {
      const { counted, last } = this.#reads.run(() => {
        if (access.by === 'key') this.#require(access.index)
        const [counted, last] = query.get(...values, after) ?? []
        return { counted: Number(counted), last: Number(last) }
      })
      yield counted
      if (counted < COUNT_ROWS) return
      after = last
    }
  }

  async items(
    positions: readonly number[],
    { text, charactersMax }: { text: boolean; charactersMax: number },
  ) {
    const sql = `SELECT i.id, i.created, i.revision${text ? ', i.item' : ''}
      FROM json_each(?) AS c CROSS JOIN items AS i ON i.created = c.value`
    const list = JSON.stringify(positions)
    if (!text) {
      return this.#reads.all(sql, [list], (row) => ({ ...positionsOf(row), text: null }))
    }
    return this.#reads.page(sql, [list], itemOf, (item) => item.text.length, charactersMax)
  }

  async *#pieces(cursor: RowScan, workPerByte: number): AsyncGenerator<readonly number[]> {
    for (let isEnd = false; !isEnd; ) {
      const positions: number[] = []
      isEnd = this.#reads.run(() => {
        positions.length = 0
        let rows = 0
        let work = 0
        for (const row of cursor.rows()) {
          const [created, bytes, isMatch] = row
          cursor.advance(row)
          if (isMatch === 1) positions.push(Number(created))
          rows += 1
          work += Number(bytes) * workPerByte
          if (work >= PIECE_WORK) return false
        }
        return rows < PIECE_ROWS
      })
      yield positions
    }
  }

  #cursor(
    database: number,
    access: Exclude<Access, { by: 'list' }>,
    filter: CompiledWhere,
  ): RowScan {
    switch (access.by) {
      case 'creation':
      case 'key':
        return this.#creationCursor(database, access, filter)
      case 'index':
        return this.#indexCursor(access, filter)
      case 'id':
        return this.#idCursor(database, access, filter)
    }
  }

  #creationCursor(
    database: number,
    access: Extract<Access, { by: 'creation' | 'key' }>,
    { text, values }: CompiledWhere,
  ): RowScan {
    let { after } = access
    let isIndexed = access.by === 'key'
    const rows = () => {
      // If the index is removed during the search, the remaining items are scanned.
      isIndexed &&= access.by === 'key' && this.#exists(access.index)
      if (access.by === 'creation' || !isIndexed) {
        const sql = `SELECT i.created, octet_length(i.item), ${text} FROM items AS i
          WHERE i.db = ? AND i.created > ? ORDER BY i.created LIMIT ${PIECE_ROWS}`
        return this.#statements.get(sql).iterate(...values, database, after)
      }
      const { index, key, isExact } = access
      if (isExact) {
        const sql = `SELECT created, 0, 1 FROM index_entries
          WHERE number = ? AND key = ? AND created > ? ORDER BY created LIMIT ${PIECE_ROWS}`
        return this.#statements.get(sql).all(index.number, key, after)
      }
      const sql = `SELECT e.created, octet_length(i.item), ${text}
        FROM index_entries AS e CROSS JOIN items AS i ON i.created = e.created
        WHERE e.number = ? AND e.key = ? AND e.created > ?
        ORDER BY e.created LIMIT ${PIECE_ROWS}`
      return this.#statements.get(sql).iterate(...values, index.number, key, after)
    }
    return {
      rows,
      advance: ([created]) => {
        after = Number(created)
      },
    }
  }

  #indexCursor(
    { index, descending }: Extract<Access, { by: 'index' }>,
    { text, values }: CompiledWhere,
  ): RowScan {
    const [operator, direction] = descending ? ['<', 'DESC'] : ['>', 'ASC']
    const sql = `SELECT e.created, octet_length(i.item), ${text}, e.key
      FROM index_entries AS e CROSS JOIN items AS i ON i.created = e.created
      WHERE e.number = ? AND e.sorts = 1 AND (e.key, e.created) ${operator} (?, ?)
      ORDER BY e.key ${direction}, e.created ${direction} LIMIT ${PIECE_ROWS}`
    let key: Uint8Array = descending ? Buffer.of(0xff) : Buffer.alloc(0)
    let last = -1
    return {
      rows: () => {
        this.#require(index)
        return this.#statements.get(sql).iterate(...values, index.number, key, last)
      },
      advance: ([created, , , rowKey]) => {
        last = Number(created)
        if (rowKey instanceof Uint8Array) key = rowKey
      },
    }
  }

  #idCursor(
    database: number,
    { range, descending, where }: Extract<Access, { by: 'id' }>,
    { text, values }: CompiledWhere,
  ): RowScan {
    let { from, to } = range
    // Includes `from` until a row has been read.
    let operator = '>='
    // Without a predicate, the sizes are not needed, and the query reads only the index of ids.
    const bytes = where === null ? '0' : 'octet_length(i.item)'
    return {
      rows: () =>
        this.#statements
          .get(
            `SELECT i.created, ${bytes}, ${text}, i.id FROM items AS i INDEXED BY items_by_id
              WHERE i.db = ? AND i.id ${operator} ? AND i.id < ?
              ORDER BY i.id ${descending ? 'DESC' : 'ASC'} LIMIT ${PIECE_ROWS}`,
          )
          .iterate(...values, database, from, to),
      advance: ([, , , id]) => {
        if (descending) to = String(id)
        else {
          from = String(id)
          operator = '>'
        }
      },
    }
  }

  /** Throws if the index was removed. Errors: SEARCH_INTERRUPTED. */
  #require(index: ReadyIndex): void {
    if (this.#exists(index)) return
    throw new StoreError(
      'SEARCH_INTERRUPTED',
      `the index ${index.path} was removed during the search; repeat the search`,
    )
  }

  #exists({ number, database, path }: ReadyIndex): boolean {
    const sql = 'SELECT 1 FROM indexes WHERE number = ? AND db = ? AND path = ? AND built = ?'
    return this.#statements.get(sql).get(number, database, path, READY) !== undefined
  }
}
