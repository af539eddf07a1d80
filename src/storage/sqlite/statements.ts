import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Row } from './rows.ts'

/** What can be bound to a `?`. */
export type Value = string | number | Uint8Array | null

/**
 * A limit that is bound. SQLite plans by the value of a plain `LIMIT ?`, so it prepares such a statement
 * again whenever one is bound (since 3.47), which takes as long as a short page does; of a sum it knows nothing.
 */
export const LIMIT = 'LIMIT ? + 0'

/**
 * A statement, prepared when it is first used: a store has many that most of its connections never run.
 * Rows come as arrays, which costs half of what objects do.
 */
export class Query {
  readonly #database: DatabaseSync
  readonly #sql: string
  #statement: StatementSync | null = null

  constructor(database: DatabaseSync, sql: string) {
    this.#database = database
    this.#sql = sql
  }

  /** The first row, or undefined. */
  get(...values: Value[]): Row | undefined {
    // The driver's types know rows as objects only; with setReturnArrays they are arrays.
    return this.#prepared().get(...values) as unknown as Row | undefined
  }

  /** All rows. */
  all(...values: Value[]): Row[] {
    return this.#prepared().all(...values) as unknown as Row[]
  }

  /** Row after row; leaving the loop early resets the statement. */
  iterate(...values: Value[]): Iterable<Row> {
    const statement = this.#prepared()
    try {
      return statement.iterate(...values) as unknown as Iterable<Row>
    } catch {
      // The driver reports here that the iteration before this one failed, which its caller knows.
      return statement.iterate(...values) as unknown as Iterable<Row>
    }
  }

  /** How many rows were changed. */
  run(...values: Value[]): number {
    return Number(this.#prepared().run(...values).changes)
  }

  #prepared(): StatementSync {
    if (this.#statement === null) {
      this.#statement = this.#database.prepare(this.#sql)
      this.#statement.setReturnArrays(true)
    }
    return this.#statement
  }
}

/** Statements kept for texts that come again; what was not used for long goes. */
const KEPT_MAX = 64
/** Of longer ones, which take much memory, only the last is kept. */
const KEPT_CHARACTERS_MAX = 8_192

/** Statements whose text is only known when they are needed. */
export class StatementCache {
  readonly #database: DatabaseSync
  readonly #kept = new Map<string, Query>()
  #long: { readonly sql: string; readonly query: Query } | null = null

  constructor(database: DatabaseSync) {
    this.#database = database
  }

  /** The statement of `sql`, made or kept. */
  get(sql: string): Query {
    if (sql.length > KEPT_CHARACTERS_MAX) {
      if (this.#long?.sql !== sql) this.#long = { sql, query: new Query(this.#database, sql) }
      return this.#long.query
    }
    const query = this.#kept.get(sql) ?? new Query(this.#database, sql)
    // The last used stand last.
    this.#kept.delete(sql)
    this.#kept.set(sql, query)
    if (this.#kept.size > KEPT_MAX) this.#kept.delete(this.#kept.keys().next().value ?? '')
    return query
  }
}
