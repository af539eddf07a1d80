import type { Schedule } from '../../base/clock.ts'
import { CodedError } from '../../base/coded-error.ts'
import { StoreError } from '../port/errors.ts'
import { type Row, text } from '../sql/rows.ts'
import { Connection, type ConnectionOptions } from './connection.ts'
import { toStoreError } from './errors.ts'
import { ReadPool } from './reads.ts'
import { requireStore } from './schema.ts'

const POLL_MS = 100

/** A short text in a database that all processes of a node share. The text is not part of the chain. */
export interface SharedText {
  /** Returns the text, or null if there is none. A change by another process appears after POLL_MS. */
  current(): string | null
  /**
   * Replaces the text with `change(current)`. The changes of all processes run one after another.
   * Errors: as for `change`; StoreError.
   */
  change(change: (text: string | null) => string): Promise<void>
  /** Calls `listener` after each change, also by another process. */
  listen(listener: () => void): void
  close(): Promise<void>
}

const SQL = {
  read: 'SELECT version, text FROM shared_texts WHERE name = $1 AND version > $2',
  add: 'INSERT INTO shared_texts (name, version, text) VALUES ($1, 0, NULL) ON CONFLICT DO NOTHING',
  lock: 'SELECT version, text FROM shared_texts WHERE name = $1 FOR UPDATE',
  replace: 'UPDATE shared_texts SET version = version + 1, text = $2 WHERE name = $1',
} as const

/** Opens the text `name` in a database that contains a store, and polls the text. Errors: StoreError. */
export async function openPostgresSharedText(
  options: ConnectionOptions,
  name: string,
  schedule: Schedule,
): Promise<SharedText> {
  try {
    const connection = await Connection.open(options)
    await requireStore(connection)
    const shared = new PostgresSharedText(options, name, new ReadPool(options, connection))
    await shared.refresh()
    shared.poll(schedule)
    return shared
  } catch (error) {
    throw toStoreError(error)
  }
}

/**
 * Replaces the text `name` with `change(text)`, and returns its version. After a crash or a lost connection, the stored
 * text is the old text or the new text. Errors: as for `change`; StoreError; STORE_ROLLED_BACK if the text has a lower
 * version than `versionMin`, which a failover may cause.
 */
export async function changePostgresText(
  options: ConnectionOptions,
  name: string,
  {
    change,
    versionMin,
  }: { readonly change: (text: string | null) => string; readonly versionMin: number },
): Promise<number> {
  let connection: Connection | null = null
  try {
    connection = await Connection.open(options)
    await connection.execute('BEGIN')
    await connection.rows(SQL.add, [name])
    const [before] = await connection.rows(SQL.lock, [name])
    const version = Number(before?.[0])
    if (version < versionMin) {
      const message = `the database has lost the newest version of the text ${name}`
      throw new StoreError('STORE_ROLLED_BACK', message)
    }
    const text = findText(before)
    const changed = change(text)
    if (changed === text) return version
    await connection.rows(SQL.replace, [name, changed])
    await connection.execute('COMMIT')
    if (connection.takeWarning() !== null) {
      throw new StoreError('OUTCOME_UNKNOWN', 'a standby may lack the change; try again')
    }
    return version + 1
  } catch (error) {
    // An error of `change` is not an error of the store.
    throw error instanceof CodedError ? error : toStoreError(error)
  } finally {
    // Ends the transaction if it is still open.
    await connection?.close()
  }
}

class PostgresSharedText implements SharedText {
  readonly #options: ConnectionOptions
  readonly #name: string
  readonly #pool: ReadPool
  #version = 0
  #text: string | null = null
  #cancelPoll: () => void = () => {}
  #polling: Promise<void> = Promise.resolve()
  #isClosed = false
  #onChange: () => void = () => {}

  constructor(options: ConnectionOptions, name: string, pool: ReadPool) {
    this.#options = options
    this.#name = name
    this.#pool = pool
  }

  current(): string | null {
    return this.#text
  }

  async refresh(): Promise<void> {
    const [row] = await this.#pool.rows(SQL.read, [this.#name, this.#version])
    if (row !== undefined) this.#take(row)
  }

  poll(schedule: Schedule): void {
    if (this.#isClosed) return
    this.#cancelPoll = schedule.after(POLL_MS, () => {
      // While the database cannot be read, the last text stays.
      this.#polling = this.refresh().catch(() => {})
      void this.#polling.then(() => this.poll(schedule))
    })
  }

  async change(change: (text: string | null) => string): Promise<void> {
    await changePostgresText(this.#options, this.#name, { change, versionMin: this.#version })
    await this.refresh().catch((error: unknown) => {
      throw toStoreError(error)
    })
  }

  listen(listener: () => void): void {
    this.#onChange = listener
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelPoll()
    await this.#polling
    await this.#pool.close()
  }

  #take(row: Row): void {
    const version = Number(row[0])
    // Ignores an answer that arrives after the answer to a later read.
    if (version <= this.#version) return
    this.#version = version
    this.#text = findText(row)
    this.#onChange()
  }
}

function findText(row: Row | undefined): string | null {
  const value = row?.[1] ?? null
  return value === null ? null : text(value, 'text')
}
