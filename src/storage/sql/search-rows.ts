import { packPosition } from '../../chain/index.ts'
import type { Where } from '../../filter/index.ts'
import { StoreError } from '../port/errors.ts'
import { READY } from '../search/declared-indexes.ts'
import type { KeyRange } from '../search/index-keys.ts'
import type { CountedAccess, ReadyIndex, RowAccess, Scan, SearchRows } from '../search/plan.ts'
import {
  type CompiledWhere,
  type Dialect,
  type SqlReads,
  translated,
  type Value,
} from './dialect.ts'
import { type Row, readInteger, readItemPositions, readStoredItem, text } from './rows.ts'

/** Maximum rows read for one piece of a scan. */
const PIECE_ROWS = 1_000
/** Maximum work per piece: bytes of items, times the number of compared values. */
const PIECE_WORK = 4 * 1_048_576
/** Maximum index entries counted at once, which takes about two milliseconds. */
const COUNT_ROWS = 20_000
const MATCH_ALL: CompiledWhere = { text: '1', values: [], isExact: true }

type ScanAccess = Exclude<RowAccess, { by: 'list' }>

const STATEMENTS = {
  newest: 'SELECT height FROM blocks ORDER BY height DESC LIMIT 1',
  readyIndexes: `SELECT number, path FROM indexes WHERE db = $1 AND built = ${READY}`,
  hasMore: 'SELECT created FROM index_entries WHERE number = $1 AND key = $2 LIMIT 1 OFFSET $3',
  // Gives no row if the index was removed.
  countAtKey: `SELECT amount, last FROM indexes CROSS JOIN
    (SELECT count(*) AS amount, max(created) AS last FROM
      (SELECT created FROM index_entries WHERE number = $1 AND key = $3 AND created > $4
        ORDER BY created LIMIT ${COUNT_ROWS}) AS found) AS counted
    WHERE number = $1 AND path = $2 AND built = ${READY}`,
  countAll: `SELECT count(*), max(created) FROM
    (SELECT created FROM items WHERE db = $1 AND created > $2 ORDER BY created LIMIT ${COUNT_ROWS}) AS found`,
} as const

/** A scan over rows with the columns created, bytes of the item, whether the item matches, and `id` or `key`. */
interface Cursor {
  /** Returns the SQL and the values of at most PIECE_ROWS rows after the current row. */
  statement(): { readonly sql: string; readonly values: readonly Value[] }
  advance(row: Row): void
}

/** Reads indexes and items for searches. */
export class SqlSearchRows implements SearchRows {
  readonly #reads: SqlReads
  readonly #dialect: Dialect
  readonly #sql

  constructor(reads: SqlReads, dialect: Dialect) {
    this.#reads = reads
    this.#dialect = dialect
    const items = (columns: string) =>
      `SELECT i.id, i.created, i.revision, ${columns}
        FROM ${dialect.elements('$1')} CROSS JOIN items AS i WHERE i.created = n.value`
    this.#sql = translated(dialect, {
      ...STATEMENTS,
      ids: dialect.page(items('n.number'), '0', 'number'),
      // Only PostgreSQL limits the page by $2.
      items: dialect.page(
        `${items('i.item, n.number')} AND $2 > 0`,
        'octet_length(item)',
        'number',
        '$2',
      ),
    })
  }

  async end(): Promise<number> {
    const height = await this.#reads.first(this.#sql.newest, [], (row) =>
      readInteger(row, 'height'),
    )
    return height === null ? 0 : packPosition(height + 1, 0)
  }

  readyIndexes(database: number): Promise<ReadyIndex[]> {
    return this.#reads.all(this.#sql.readyIndexes, [database], ([number, path]) => ({
      number: Number(number),
      database,
      path: text(path, 'path'),
    }))
  }

  async hasMore({ number }: ReadyIndex, key: Uint8Array, count: number): Promise<boolean> {
    const values = [number, key, count]
    return (await this.#reads.first(this.#sql.hasMore, values, () => true)) ?? false
  }

  async positions(
    { number, path }: ReadyIndex,
    { from, fromIncluded, to, toIncluded }: KeyRange,
    { elementsOnly, limit }: { elementsOnly: boolean; limit: number },
  ): Promise<number[] | null> {
    const sql = whileReady(
      'CAST(NULL AS bigint)',
      `SELECT created FROM index_entries WHERE number = $1
        AND key ${fromIncluded ? '>=' : '>'} $3 AND key ${toIncluded ? '<=' : '<'} $4
        ${elementsOnly ? 'AND NOT sorts' : ''} LIMIT $5`,
    )
    const values = [number, path, from, to, limit]
    const rows = await this.#reads.all(this.#dialect.statement(sql), values, (row) => row)
    const found = rows.filter(isEntry)
    return found.length === rows.length ? null : found.map(toCreated)
  }

  scan(database: number, access: ScanAccess, where: Where | null): Scan {
    const condition = where === null ? MATCH_ALL : this.#dialect.condition(where)
    return { isExact: condition.isExact, pieces: this.#pieces(database, access, condition) }
  }

  async *counts(database: number, access: CountedAccess): AsyncGenerator<number> {
    let { after } = access
    const [sql, values]: [string, Value[]] =
      access.by === 'key'
        ? [this.#sql.countAtKey, [access.index.number, access.index.path, access.key]]
        : [this.#sql.countAll, [database]]
    for (;;) {
      const row = await this.#reads.first(sql, [...values, after], (row) => row)
      if (row === null && access.by === 'key') throw interrupted(access.index)
      if (row === null) return
      const counted = readInteger(row, 'count')
      yield counted
      if (counted < COUNT_ROWS) return
      after = readInteger(row.slice(1), 'last')
    }
  }

  items(
    positions: readonly number[],
    { text, charactersMax }: { text: boolean; charactersMax: number },
  ) {
    const list = JSON.stringify(positions)
    if (!text) {
      return this.#reads.all(this.#sql.ids, [list], (row) => ({
        ...readItemPositions(row),
        text: null,
      }))
    }
    const max = Math.ceil(charactersMax)
    return this.#reads.page(
      this.#sql.items,
      [list, max],
      readStoredItem,
      (item) => item.text.length,
      max,
    )
  }

  async *#pieces(
    database: number,
    access: ScanAccess,
    condition: CompiledWhere,
  ): AsyncGenerator<readonly number[]> {
    const isExactKey = access.by === 'key' && access.isExact && condition.isExact
    const filter = isExactKey ? MATCH_ALL : condition
    const workPerByte = 1 + filter.values.length
    const toWork = ([, bytes]: Row) => Number(bytes) * workPerByte
    const cursor = this.#cursor(database, access, filter)
    let after = -1
    for (;;) {
      const { sql, values } = cursor.statement()
      const text = this.#dialect.statement(sql)
      const all = [...filter.values, ...values]
      const rows = await this.#reads.page(text, all, (row) => row, toWork, PIECE_WORK)
      const found = rows.filter(isEntry)
      if ('index' in access && found.length === rows.length) {
        if (access.by === 'index') throw interrupted(access.index)
        // The index was removed during the search, so the remaining items are scanned.
        yield* this.#pieces(
          database,
          { by: 'creation', after: Math.max(after, access.after) },
          condition,
        )
        return
      }
      yield found.filter(([, , isMatch]) => isMatch === 1).map(toCreated)
      const last = found.at(-1)
      const work = found.reduce((sum, row) => sum + toWork(row), 0)
      if (last === undefined || (found.length < PIECE_ROWS && work < PIECE_WORK)) return
      cursor.advance(last)
      after = toCreated(last)
    }
  }

  #cursor(database: number, access: ScanAccess, filter: CompiledWhere): Cursor {
    const texts = scanTexts(filter)
    switch (access.by) {
      case 'creation':
        return creationCursor(texts, database, access)
      case 'key':
        return this.#keyCursor(texts, access)
      case 'index':
        return this.#indexCursor(texts, access)
      case 'id':
        return this.#idCursor(texts, database, access)
    }
  }

  #keyCursor(
    { columns, entries, p }: ScanTexts,
    { index, key, after: start }: Extract<RowAccess, { by: 'key' }>,
  ): Cursor {
    let after = start
    const rows = `SELECT ${columns('e')} ${entries} e.number = ${p(1)} AND e.key = ${p(3)}
      AND e.created > ${p(4)} ORDER BY e.created LIMIT ${PIECE_ROWS}`
    const sql = this.#dialect.page(whileReady(NO_ENTRY, rows, p), '0', 'created')
    return {
      statement: () => ({ sql, values: [index.number, index.path, key, after] }),
      advance: (row) => {
        after = toCreated(row)
      },
    }
  }

  #indexCursor(
    { columns, entries, p }: ScanTexts,
    { index, descending }: Extract<RowAccess, { by: 'index' }>,
  ): Cursor {
    const [operator, direction] = descending ? ['<', 'DESC'] : ['>', 'ASC']
    const order = (table: string) => `${table}key ${direction}, ${table}created ${direction}`
    const rows = `SELECT ${columns('e')}, e.key AS key ${entries} e.number = ${p(1)} AND e.sorts
      AND (e.key, e.created) ${operator} (${p(3)}, ${p(4)}) ORDER BY ${order('e.')} LIMIT ${PIECE_ROWS}`
    const sql = this.#dialect.page(whileReady(`${NO_ENTRY}, NULL AS key`, rows, p), '0', order(''))
    let key: Uint8Array = descending ? Buffer.of(0xff) : Buffer.alloc(0)
    let last = -1
    return {
      statement: () => ({ sql, values: [index.number, index.path, key, last] }),
      advance: (row) => {
        key = row[3] instanceof Uint8Array ? row[3] : Buffer.alloc(0)
        last = toCreated(row)
      },
    }
  }

  #idCursor(
    { columns, p }: ScanTexts,
    database: number,
    { range, descending }: Extract<RowAccess, { by: 'id' }>,
  ): Cursor {
    let { from, to } = range
    // Includes `from` until a row has been read.
    let operator = '>='
    return {
      statement: () => ({
        sql: `SELECT ${columns('i')}, i.id FROM ${this.#dialect.itemsById}
          WHERE i.db = ${p(1)} AND i.id ${operator} ${p(2)} AND i.id < ${p(3)}
          ORDER BY i.id ${descending ? 'DESC' : 'ASC'} LIMIT ${PIECE_ROWS}`,
        values: [database, from, to],
      }),
      advance: ([, , , id]) => {
        if (descending) to = text(id, 'id')
        else {
          from = text(id, 'id')
          operator = '>'
        }
      },
    }
  }
}

function creationCursor(
  { columns, p }: ScanTexts,
  database: number,
  { after: start }: Extract<RowAccess, { by: 'creation' }>,
): Cursor {
  let after = start
  const sql = `SELECT ${columns('i')} FROM items AS i
    WHERE i.db = ${p(1)} AND i.created > ${p(2)} ORDER BY i.created LIMIT ${PIECE_ROWS}`
  return {
    statement: () => ({ sql, values: [database, after] }),
    advance: (row) => {
      after = toCreated(row)
    },
  }
}

type ScanTexts = ReturnType<typeof scanTexts>

/** Returns the parts of a scan's SQL that depend on `filter`, whose values precede those of the scan. */
function scanTexts(filter: CompiledWhere) {
  // Without a condition, the items are not read.
  const isChecked = filter.text !== MATCH_ALL.text
  const bytes = isChecked ? 'octet_length(i.item)' : '0'
  return {
    columns: (table: 'e' | 'i') =>
      `${table}.created AS created, ${bytes} AS bytes, ${filter.text} AS matches`,
    entries: isChecked
      ? 'FROM index_entries AS e CROSS JOIN items AS i WHERE i.created = e.created AND'
      : 'FROM index_entries AS e WHERE',
    p: (number: number) => `$${filter.values.length + number}`,
  }
}

const NO_ENTRY = 'CAST(NULL AS bigint) AS created, 0 AS bytes, 1 AS matches'

/**
 * Returns the SQL of `rows` of an index, after a row with the columns `noEntry` if the index still exists. Without this
 * row, the index was removed, and `rows` may be incomplete.
 */
function whileReady(noEntry: string, rows: string, p = (number: number) => `$${number}`): string {
  return `SELECT ${noEntry} FROM indexes WHERE number = ${p(1)} AND path = ${p(2)} AND built = ${READY}
    UNION ALL SELECT * FROM (${rows}) AS entries`
}

const isEntry = ([created]: Row): boolean => created !== null
const toCreated = (row: Row): number => readInteger(row, 'created')

function interrupted({ path }: ReadyIndex): StoreError {
  return new StoreError(
    'SEARCH_INTERRUPTED',
    `the index ${path} was removed during the search; repeat the search`,
  )
}
