/** Codes of what can be wrong with a value. */
export type ProblemCode =
  | 'MISSING'
  | 'UNKNOWN_PROPERTY'
  | 'WRONG_TYPE'
  | 'NOT_IN_ENUM'
  | 'NOT_A_DATE'
  | 'NOT_AN_INTEGER'
  | 'NUMBER_TOO_LARGE'
  | 'OUT_OF_RANGE'
  | 'PATTERN_MISMATCH'
  | 'WRONG_CLASS'
  | 'ABSTRACT_CLASS'
  | 'WRONG_RELATIONSHIP'
  | 'ID_EMPTY'
  | 'ID_TOO_LONG'
  | 'ASSIGNED_BY_SERVER'
  | 'REFERENCE_MISSING'
  | 'REPEATED'

/** One thing that is wrong with a value. */
export interface Problem {
  /** JSON pointer (RFC 6901) to it; empty for the whole value. */
  readonly path: string
  readonly code: ProblemCode
  readonly message: string
}

/** Problems that are reported of one value at most. */
export const PROBLEMS_MAX = 100

/** `path` with one more step. */
export function pointer(path: string, step: string | number): string {
  return `${path}/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`
}
