import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Value } from '../sql/dialect.ts'
import type { Row } from '../sql/rows.ts'

/** A limit as a parameter. See `SQLITE.statement`. */
export const LIMIT = 'LIMIT ? + 0'

/** A statement, prepared on first use. Rows are arrays, which cost half as much as objects. */
export class Query {
  readonly #database: DatabaseSync
  readonly #sql: string
  #statement: StatementSync | null = null

  constructor(database: DatabaseSync, sql: string) {
    this.#database = database
    this.#sql = sql
  }

  get(...values: Value[]): Row | undefined {
    // The driver's types only describe rows as objects; with setReturnArrays they are arrays.
    return this.#prepared().get(...values) as unknown as Row | undefined
  }

  all(...values: Value[]): Row[] {
    return this.#prepared().all(...values) as unknown as Row[]
  }

  /** Returns the rows one by one. Leaving the loop early resets the statement. */
  iterate(...values: Value[]): Iterable<Row> {
    const statement = this.#prepared()
    try {
      return statement.iterate(...values) as unknown as Iterable<Row>
    } catch {
      // Tries again, because the driver can report here an error that the previous iteration has already thrown.
      return statement.iterate(...values) as unknown as Iterable<Row>
    }
  }

  /** Returns the number of changed rows. */
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

/** Returns a query for each SQL text, under the same name. */
export function toQueries<Name extends string>(
  database: DatabaseSync,
  sql: Readonly<Record<Name, string>>,
): Readonly<Record<Name, Query>> {
  const queries: Partial<Record<Name, Query>> = {}
  for (const name in sql) queries[name] = new Query(database, sql[name])
  return queries as Record<Name, Query>
}

const CACHED_MAX = 128
/** Length of statements beyond which only the last statement is cached, because long statements take much memory. */
const CACHED_CHARACTERS_MAX = 8_192

/** Cache of statements by their texts; evicts the least recently used statement. */
export class StatementCache {
  readonly #database: DatabaseSync
  readonly #cached = new Map<string, Query>()
  #long: { readonly sql: string; readonly query: Query } | null = null

  constructor(database: DatabaseSync) {
    this.#database = database
  }

  get(sql: string): Query {
    if (sql.length > CACHED_CHARACTERS_MAX) {
      if (this.#long?.sql !== sql) this.#long = { sql, query: new Query(this.#database, sql) }
      return this.#long.query
    }
    const query = this.#cached.get(sql) ?? new Query(this.#database, sql)
    // Moves the statement to the end, as the most recently used.
    this.#cached.delete(sql)
    this.#cached.set(sql, query)
    if (this.#cached.size > CACHED_MAX) this.#cached.delete(this.#cached.keys().next().value ?? '')
    return query
  }
}
