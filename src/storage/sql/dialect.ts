import type { Where } from '../../filter/index.ts'
import type { Row } from './rows.ts'

export type Value = string | number | Uint8Array | null

/** SQL with the values of its first placeholders. `text` never contains text from a request. */
export interface CompiledWhere {
  readonly text: string
  readonly values: readonly Value[]
  /** Whether the SQL is equivalent to `matches`. Otherwise the SQL accepts more items, which `matches` must check. */
  readonly isExact: boolean
}

/** Runs the reads of one engine. Errors: STORE_DAMAGED, STORE_FAILED, STORE_UNAVAILABLE. */
export interface SqlReads {
  all<Result>(
    sql: string,
    values: readonly Value[],
    convert: (row: Row) => Result,
  ): Promise<Result[]>
  first<Result>(
    sql: string,
    values: readonly Value[],
    convert: (row: Row) => Result,
  ): Promise<Result | null>
  /**
   * Like `all` for a statement of `Dialect.page`. `measure` returns the size of a row, of which a page has `sizeMax`
   * (default: PAGE_CHARACTERS).
   */
  page<Result>(
    sql: string,
    values: readonly Value[],
    convert: (row: Row) => Result,
    measure: (result: Result) => number,
    sizeMax?: number,
  ): Promise<Result[]>
}

/** The differences between the engines in SQL. Statements are written for PostgreSQL, with placeholders `$n`. */
export interface Dialect {
  /** Returns `sql` in the notation of the engine. */
  statement(sql: string): string
  /**
   * Sorts the rows of `source` by `order`, if the engine would not keep their order, and limits them to one page of
   * `max` bytes (default: PAGE_CHARACTERS), unless `SqlReads.page` does. `size` is the number of bytes of a row, which is
   * an upper bound of its characters.
   */
  page(source: string, size: string, order: string, max?: string): string
  /** A table of the numbers in a JSON array, with the columns `value` and `number`, which counts the elements. */
  elements(parameter: string): string
  /** Selects the texts in a JSON array. */
  texts(parameter: string): string
  /** Joins the texts of all rows with line feeds, in the order of `order`. */
  lines(text: string, order: string): string
  /** The last line of a column of integers, or all its lines. */
  lastLine(column: string): string
  /** The table `items`, named `i`, read by its index on ids. */
  readonly itemsById: string
  /** The predicate of item `i`, as far as the engine evaluates it. */
  condition(where: Where): CompiledWhere
}

/** Returns `texts` in the notation of the engine. */
export function translated<Name extends string>(
  { statement }: Dialect,
  texts: Readonly<Record<Name, string>>,
): Readonly<Record<Name, string>> {
  const entries = Object.entries<string>(texts).map(([name, sql]) => [name, statement(sql)])
  return Object.fromEntries(entries) as Record<Name, string>
}
