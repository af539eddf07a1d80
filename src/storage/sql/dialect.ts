import type { Row } from './rows.ts'

/** A value of a parameter. */
export type Value = string | number | Uint8Array | null

/** Runs the reads of one engine. Errors: STORE_DAMAGED, STORE_FAILED, STORE_UNAVAILABLE. */
export interface SqlReads {
  /** Returns all rows, converted. */
  all<Result>(
    sql: string,
    values: readonly Value[],
    convert: (row: Row) => Result,
  ): Promise<Result[]>
  /** Returns the first row, converted, or null. */
  first<Result>(
    sql: string,
    values: readonly Value[],
    convert: (row: Row) => Result,
  ): Promise<Result | null>
  /** Like `all` for a statement of `Dialect.page`. `measure` returns the characters of a row. */
  page<Result>(
    sql: string,
    values: readonly Value[],
    convert: (row: Row) => Result,
    measure: (result: Result) => number,
  ): Promise<Result[]>
}

/** The differences between the engines in SQL. Statements are written for PostgreSQL, with placeholders `$n`. */
export interface Dialect {
  /** Returns `sql` in the notation of the engine. */
  statement(sql: string): string
  /**
   * Limits the rows of `source`, sorted by `order`, to one page (PAGE_CHARACTERS), unless `SqlReads.page` does.
   * `size` is the number of bytes of a row, which is an upper bound of its characters.
   */
  page(source: string, size: string, order: string): string
  /** A table of the numbers in a JSON array, with the columns `value` and `number`, which counts the elements. */
  elements(parameter: string): string
  /** Joins the texts of all rows with line feeds, in the order of `order`. */
  lines(text: string, order: string): string
  /** The last line of a column of integers, or all its lines. */
  lastLine(column: string): string
  /** The table `items`, read by its index on ids. */
  readonly itemsById: string
}

/** Returns `texts` in the notation of the engine. */
export function translated<Name extends string>(
  { statement }: Dialect,
  texts: Readonly<Record<Name, string>>,
): Readonly<Record<Name, string>> {
  const entries = Object.entries<string>(texts).map(([name, sql]) => [name, statement(sql)])
  return Object.fromEntries(entries) as Record<Name, string>
}
