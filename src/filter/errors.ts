import { CodedError } from '../base/coded-error.ts'

/** Every way a filter is refused. */
export type FilterErrorCode =
  | 'FILTER_MALFORMED' // not JSON, broken brackets, something else where an object or list must be
  | 'FILTER_UNKNOWN' // a member or an operator that there is none of
  | 'FILTER_FIELD_UNKNOWN' // the model has no such field
  | 'FILTER_VALUE_WRONG' // a value of the wrong type, or out of range
  | 'FILTER_PATTERN_WRONG' // a pattern that cannot be read, or that asks for what is not offered
  | 'FILTER_TOO_LARGE' // more conditions, depth or text than a filter may have

/** Thrown by `filterOf`; the message begins with the JSON pointer of the place, from the filter on. */
export class FilterError extends CodedError<FilterErrorCode> {
  override readonly name = 'FilterError'
  /** RFC 6901, from the filter's root: `/where/qty/lt`. */
  readonly pointer: string
  /** What is wrong there, without the pointer. */
  readonly reason: string

  constructor(code: FilterErrorCode, at: readonly (string | number)[], reason: string) {
    const pointer = pointerOf(at)
    super(code, `filter${pointer}: ${reason}`)
    this.pointer = pointer
    this.reason = reason
  }
}

/** The HTTP status of each refusal. */
export const statusOfFilter: Record<FilterErrorCode, number> = {
  FILTER_MALFORMED: 400,
  FILTER_UNKNOWN: 400,
  FILTER_FIELD_UNKNOWN: 400,
  FILTER_VALUE_WRONG: 400,
  FILTER_PATTERN_WRONG: 400,
  FILTER_TOO_LARGE: 400,
}

function pointerOf(at: readonly (string | number)[]): string {
  return at
    .map((part) => `/${String(part).slice(0, 64).replaceAll('~', '~0').replaceAll('/', '~1')}`)
    .join('')
}
