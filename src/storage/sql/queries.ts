import type { Value } from './dialect.ts'
import type { Row } from './rows.ts'

export interface SqlStatement {
  readonly text: string
  readonly values: readonly Value[]
}

/** Runs statements that both engines understand, with parameters `$1`, `$2` and so on. */
export interface SqlRows {
  rows(text: string, values: readonly Value[]): Promise<Row[]>
}
