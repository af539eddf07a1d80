import type { DatabaseSync } from 'node:sqlite'
import { readError, StoreError } from '../port/errors.ts'
import { PAGE_CHARACTERS } from '../port/store.ts'
import type { Dialect, SqlReads, Value } from '../sql/dialect.ts'
import type { SqlRows } from '../sql/queries.ts'
import { page, type Row } from '../sql/rows.ts'
import { StatementCache } from './statements.ts'
import { compileWhere } from './where-sql.ts'

/** SQL as SQLite writes it. A page ends where `Reads.page` stops reading rows. */
export const SQLITE: Dialect = {
  // Since 3.47, SQLite plans by the value of a plain `LIMIT ?`, and prepares the statement again whenever a value is
  // bound, which takes as long as reading a short page. The sum hides the value.
  statement: (sql) => sql.replace(/LIMIT \$\d+/g, '$& + 0').replaceAll('$', '?'),
  page: (source) => source,
  elements: (parameter) => `(SELECT value, key AS number FROM json_each(${parameter})) AS n`,
  texts: (parameter) => `SELECT value FROM json_each(${parameter})`,
  // Rows are read in the order of their creation.
  lines: (text) => `group_concat(${text}, char(10))`,
  lastLine: (column) => column,
  itemsById: 'items AS i INDEXED BY items_by_id',
  condition(where) {
    const { text, ...compiled } = compileWhere(where, 'i.item')
    let number = 0
    return {
      ...compiled,
      text: text.replaceAll('?', () => {
        number += 1
        return `$${number}`
      }),
    }
  },
}

/** A read transaction shared by several reads. */
export interface View {
  /** Begins the view, unless it has begun. */
  begin(): void
  /** Ends the view, so that the next read sees newer data. */
  end(): void
}

/** A view without effect, for connections whose transactions are managed elsewhere. */
export const NO_VIEW: View = { begin() {}, end() {} }

/** Shares one view among all reads of an event-loop iteration. */
export function viewPerIteration(connection: DatabaseSync): View {
  const begin = connection.prepare('BEGIN')
  // Ends the transaction with ROLLBACK, because COMMIT would report the failure of a read a second time. After reads,
  // both have the same effect.
  const rollback = connection.prepare('ROLLBACK')
  let isOpen = false
  const leave = () => {
    if (!isOpen) return
    isOpen = false
    // There is no transaction after SQLITE_IOERR, because SQLite itself has rolled back.
    if (connection.isTransaction) rollback.run()
  }
  return {
    begin() {
      if (isOpen) return
      begin.run()
      isOpen = true
      setImmediate(leave)
    },
    end: leave,
  }
}

/** Runs the reads of a connection. Remembers a failed read until a repetition of that read succeeds. */
export class Reads implements SqlReads {
  readonly #view: View
  readonly #statements: StatementCache
  #failedRead: { readonly read: () => unknown; readonly error: StoreError } | null = null

  constructor(view: View, statements: StatementCache) {
    this.#view = view
    this.#statements = statements
  }

  /** Returns the result of `read`. Errors: as for `read`; STORE_DAMAGED, STORE_FAILED. */
  run<Result>(read: () => Result): Result {
    try {
      this.#view.begin()
      return read()
    } catch (cause) {
      this.#view.end()
      const error = readError(cause)
      if (isFailure(error)) this.#failedRead ??= { read, error }
      throw error
    }
  }

  async first<Result>(
    sql: string,
    values: readonly Value[],
    convert: (row: Row) => Result,
  ): Promise<Result | null> {
    return this.run(() => {
      const row = this.#statements.get(sql).get(...values)
      return row === undefined ? null : convert(row)
    })
  }

  async all<Result>(
    sql: string,
    values: readonly Value[],
    convert: (row: Row) => Result,
  ): Promise<Result[]> {
    return this.run(() =>
      this.#statements
        .get(sql)
        .all(...values)
        .map((row) => convert(row)),
    )
  }

  async page<Result>(
    sql: string,
    values: readonly Value[],
    convert: (row: Row) => Result,
    measure: (result: Result) => number,
    sizeMax = PAGE_CHARACTERS,
  ): Promise<Result[]> {
    return this.run(() =>
      page(this.#statements.get(sql).iterate(...values), convert, measure, sizeMax),
    )
  }

  /** Repeats the last failed read. Returns the new failure, or null if the read succeeds or no read has failed. */
  failure(): StoreError | null {
    if (this.#failedRead === null) return null
    try {
      this.run(this.#failedRead.read)
    } catch (error) {
      if (isFailure(error)) return error
    }
    this.#failedRead = null
    return null
  }

  refresh(): void {
    this.#view.end()
  }
}

function isFailure(error: unknown): error is StoreError {
  if (!(error instanceof StoreError)) return false
  return error.code === 'STORE_DAMAGED' || error.code === 'STORE_FAILED'
}

/** Runs the statements that both engines share, on the writing connection or for a check. */
export class SharedStatements implements SqlRows {
  readonly #cache: StatementCache

  constructor(database: DatabaseSync) {
    this.#cache = new StatementCache(database)
  }

  async rows(text: string, values: readonly Value[]): Promise<Row[]> {
    return this.all(text, values)
  }

  protected all(text: string, values: readonly Value[]): Row[] {
    return this.#cache.get(SQLITE.statement(text)).all(...values)
  }
}
