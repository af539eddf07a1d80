import type { DatabaseSync } from 'node:sqlite'
import { readError, StoreError } from '../port/errors.ts'
import type { Row } from '../sql/rows.ts'
import type { Query, Value } from './statements.ts'

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
export class Reads {
  readonly #view: View
  #failedRead: { readonly read: () => unknown; readonly error: StoreError } | null = null

  constructor(view: View) {
    this.#view = view
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

  /** Returns the first row, converted, or null. */
  first<Result>(query: Query, values: Value[], convert: (row: Row) => Result): Result | null {
    return this.run(() => {
      const row = query.get(...values)
      return row === undefined ? null : convert(row)
    })
  }

  /** Returns all rows, converted. */
  all<Result>(query: Query, values: Value[], convert: (row: Row) => Result): Result[] {
    return this.run(() => query.all(...values).map((row) => convert(row)))
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
