import type { DatabaseSync } from 'node:sqlite'
import { readError, StoreError } from '../errors.ts'

/** How long reads share one view of the file. */
export interface View {
  /** Before each read. */
  take(): void
  /** When a newer view is needed. */
  leave(): void
}

/** For a connection whose transactions are begun and ended elsewhere. */
export const NO_VIEW: View = { take() {}, leave() {} }

/** One view for all reads of a turn of the event loop. */
export function viewPerTurn(connection: DatabaseSync): View {
  const begin = connection.prepare('BEGIN')
  // COMMIT would report the failure of a read again; of reads both leave nothing.
  const rollback = connection.prepare('ROLLBACK')
  let taken = false
  const leave = () => {
    if (!taken) return
    taken = false
    // A read that failed may have ended the transaction already: SQLite rolls back after SQLITE_IOERR.
    if (connection.isTransaction) rollback.run()
  }
  return {
    take() {
      if (taken) return
      begin.run()
      taken = true
      setImmediate(leave)
    },
    leave,
  }
}

/** Runs the reads of a connection, and remembers one that failed until it succeeds. */
export class Reads {
  readonly #view: View
  #failed: { readonly read: () => unknown; readonly error: StoreError } | null = null

  constructor(view: View) {
    this.#view = view
  }

  /** The result of `read`. Errors: those of `read`; STORE_DAMAGED, STORE_FAILED of the engine. */
  run<Result>(read: () => Result): Result {
    try {
      this.#view.take()
      return read()
    } catch (thrown) {
      this.#view.leave()
      const error = readError(thrown)
      if (isFailure(error)) this.#failed ??= { read, error }
      throw error
    }
  }

  /** The failure that is remembered, after the read was repeated and failed again; else null. */
  failure(): StoreError | null {
    if (this.#failed === null) return null
    try {
      this.run(this.#failed.read)
    } catch (error) {
      if (isFailure(error)) return error
    }
    this.#failed = null
    return null
  }

  refresh(): void {
    this.#view.leave()
  }
}

function isFailure(error: unknown): error is StoreError {
  if (!(error instanceof StoreError)) return false
  return error.code === 'STORE_DAMAGED' || error.code === 'STORE_FAILED'
}
