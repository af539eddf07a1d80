import { StoreError } from '../port/errors.ts'
import type { SqlReads } from '../sql/dialect.ts'
import type { Row } from '../sql/rows.ts'
import { Connection, type ConnectionOptions, type Parameter, type Queries } from './connection.ts'
import { isAfterFailure, toStoreError } from './errors.ts'
import { retrying } from './retry.ts'

/** Maximum connections of one reader. */
const CONNECTIONS_MAX = 4
/** Number of pending statements on each connection at which another connection is opened. */
const PIPELINED_MIN = 4

/** Connections shared by reads. A read whose connection is lost is repeated on another connection. */
export class ReadPool implements Queries {
  readonly #options: ConnectionOptions
  readonly #connections = new Set<Connection>()
  #opening: Promise<Connection> | null = null
  /** Timeline of the last server. */
  #timeline: number

  constructor(options: ConnectionOptions, first: Connection) {
    this.#options = options
    this.#connections.add(first)
    this.#timeline = first.timeline
  }

  rows(text: string, values: readonly Parameter[]): Promise<Row[]> {
    return retrying(async () => (await this.#connection()).rows(text, values))
  }

  script(text: string): Promise<Row[][]> {
    return retrying(async () => (await this.#connection()).script(text))
  }

  get timeline(): number {
    return this.#timeline
  }

  /** Closes the connections to servers with a lower timeline, which are former primaries. */
  requireTimeline(timeline: number): void {
    this.#timeline = Math.max(this.#timeline, timeline)
    for (const connection of this.#connections) {
      if (connection.timeline >= this.#timeline) continue
      this.#connections.delete(connection)
      // Its pending reads are repeated on another connection.
      connection.destroy()
    }
  }

  async close(): Promise<void> {
    await this.#opening?.catch(() => {})
    await Promise.all([...this.#connections].map((connection) => connection.close()))
  }

  /** Returns the connection with the fewest pending statements. */
  async #connection(): Promise<Connection> {
    let best: Connection | null = null
    for (const connection of this.#connections) {
      if (!connection.isOpen) this.#connections.delete(connection)
      else if (best === null || connection.pending < best.pending) best = connection
    }
    if (best === null) return this.#open()
    if (best.pending >= PIPELINED_MIN && this.#connections.size < CONNECTIONS_MAX) {
      // The read neither waits for the new connection nor fails with it.
      this.#open().catch(() => {})
    }
    return best
  }

  #open(): Promise<Connection> {
    this.#opening ??= Connection.open({ ...this.#options, timelineMin: this.#timeline })
      .then((connection) => {
        this.#connections.add(connection)
        this.requireTimeline(connection.timeline)
        return connection
      })
      .finally(() => {
        this.#opening = null
      })
    return this.#opening
  }
}

/**
 * Runs reads in one transaction. After a failed read, the server refuses the others; they fail with the first error,
 * which has the reason.
 */
export class FrozenQueries implements Queries {
  readonly #connection: Connection
  #first: unknown = null

  constructor(connection: Connection) {
    this.#connection = connection
  }

  rows(text: string, values: readonly Parameter[]): Promise<Row[]> {
    return this.#noting(this.#connection.rows(text, values))
  }

  script(text: string): Promise<Row[][]> {
    return this.#noting(this.#connection.script(text))
  }

  async #noting<Result>(read: Promise<Result>): Promise<Result> {
    try {
      return await read
    } catch (error) {
      if (!isAfterFailure(error)) this.#first = error
      throw this.#first ?? error
    }
  }
}

/** Runs the reads of a store. Remembers a failed read until a repetition of that read succeeds. */
export class Reads implements SqlReads {
  readonly #queries: Queries
  #failed: { readonly repeat: () => Promise<unknown>; error: StoreError } | null = null
  #isRepeating = false

  constructor(queries: Queries) {
    this.#queries = queries
  }

  async all<Result>(
    text: string,
    values: readonly Parameter[],
    convert: (row: Row) => Result,
  ): Promise<Result[]> {
    const known = values.map(withoutNul)
    const read = async () => {
      try {
        return (await this.#queries.rows(text, known)).map((row) => convert(row))
      } catch (error) {
        throw toStoreError(error)
      }
    }
    try {
      return await read()
    } catch (error) {
      if (isFailure(error)) this.#failed ??= { repeat: read, error }
      throw error
    }
  }

  async first<Result>(
    text: string,
    values: readonly Parameter[],
    convert: (row: Row) => Result,
  ): Promise<Result | null> {
    const [result] = await this.all(text, values, convert)
    return result ?? null
  }

  /** The statement itself ends the page. */
  page<Result>(
    text: string,
    values: readonly Parameter[],
    convert: (row: Row) => Result,
  ): Promise<Result[]> {
    return this.all(text, values, convert)
  }

  /**
   * Returns the last failure, or null. Repeats the failed read in the background, and forgets the failure once the read
   * succeeds.
   */
  failure(): StoreError | null {
    if (this.#failed !== null && !this.#isRepeating) void this.#repeat(this.#failed)
    return this.#failed?.error ?? null
  }

  async #repeat(failed: { readonly repeat: () => Promise<unknown>; error: StoreError }) {
    this.#isRepeating = true
    try {
      await failed.repeat()
      this.#failed = null
    } catch (error) {
      if (isFailure(error)) failed.error = error
      else this.#failed = null
    }
    this.#isRepeating = false
  }
}

/**
 * PostgreSQL has no NUL in texts. No stored name or id has a control character, so another one matches nothing either,
 * and has the same place in their order.
 */
function withoutNul(value: Parameter): Parameter {
  return typeof value === 'string' ? value.replaceAll('\0', '\u0001') : value
}

function isFailure(error: unknown): error is StoreError {
  if (!(error instanceof StoreError)) return false
  return ['STORE_DAMAGED', 'STORE_FAILED', 'STORE_UNAVAILABLE'].includes(error.code)
}
