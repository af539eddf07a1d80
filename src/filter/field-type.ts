import type { Json } from '../base/json.ts'
import { isExactNumber } from '../base/strict-json.ts'
import type { Path, Scalar } from './filter.ts'

/** Type of a model's field. Decides which operators and values a filter may use for that field. */
export interface FieldType {
  /** Allowed operators: patterns need `text`, ranges need `text` or `number`, and `compound` allows only `exists`. */
  readonly kind: 'text' | 'number' | 'boolean' | 'compound'
  /** End of the error message “must be …”. */
  readonly expected: string
  /**
   * Converts the operand `value` to the value to compare with. Returns undefined for null and for a value of another
   * type. `fromText` means that `value` is from the bracket form, where every value is a text.
   */
  read(value: Json, fromText: boolean): Exclude<Scalar, null> | undefined
}

/** Returns the type of the field at `path`, or undefined if there is no such field. */
export type TypeOf = (path: Path) => FieldType | undefined

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** Whether `text` is a JSON number. */
export function isNumberText(text: string): boolean {
  return JSON_NUMBER.test(text)
}

/** Returns the number if `text` is a JSON number that can be represented exactly, otherwise undefined. */
export function parseExactNumber(text: string): number | undefined {
  return isNumberText(text) && isExactNumber(text) ? Number(text) : undefined
}

const asNumber = (given: Json, fromText: boolean) => {
  const value = fromText && typeof given === 'string' ? parseExactNumber(given) : given
  return typeof value === 'number' ? value : undefined
}

const asTime = (given: Json) => {
  if (typeof given !== 'string' || !/^\d{4}-\d\d-\d\d(T.*)?$/.test(given)) return undefined
  const time = new Date(given)
  return Number.isNaN(time.getTime()) ? undefined : time.toISOString()
}

/** The types of a model's fields. A module may define more. */
export const FIELD_TYPES: Readonly<
  Record<'text' | 'number' | 'integer' | 'boolean' | 'dateTime' | 'compound', FieldType>
> = {
  text: {
    kind: 'text',
    expected: 'a text',
    read: (given) => (typeof given === 'string' ? given : undefined),
  },
  number: { kind: 'number', expected: 'a number', read: asNumber },
  integer: {
    kind: 'number',
    expected: 'an integer',
    read: (given, fromText) => {
      const value = asNumber(given, fromText)
      return Number.isSafeInteger(value) ? value : undefined
    },
  },
  boolean: {
    kind: 'boolean',
    expected: 'true or false',
    read: (given, fromText) => {
      if (typeof given === 'boolean') return given
      return fromText && (given === 'true' || given === 'false') ? given === 'true' : undefined
    },
  },
  /** Compared as the text of `toISOString`, whose order is chronological. */
  dateTime: { kind: 'text', expected: 'an ISO 8601 date and time', read: asTime },
  compound: { kind: 'compound', expected: 'tested only with exists', read: () => undefined },
}
