import type { Json } from '../base/json.ts'
import type { Path, Scalar } from './filter.ts'

/** What a model knows of a field that a filter names. */
export interface FieldType {
  /** Which operators fit: patterns want `text`; ranges `text` or `number`; `compound` only exists. */
  readonly kind: 'text' | 'number' | 'boolean' | 'compound'
  /** Completes “must be …”. */
  readonly expected: string
  /**
   * The value to compare with that `given` stands for, or undefined when it stands for none.
   * `fromText` says that it came in brackets, where everything is a text. Null is not asked about:
   * it stands for an absent member in every type.
   */
  read(given: Json, fromText: boolean): Exclude<Scalar, null> | undefined
}

/** The type of the field at `path`, or undefined when there is none. */
export type TypeOf = (path: Path) => FieldType | undefined

/** A number as JSON writes it. */
const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** The number that `text` is in JSON, or undefined. */
export function numberIn(text: string): number | undefined {
  if (!JSON_NUMBER.test(text)) return undefined
  const value = Number(text)
  return Number.isFinite(value) ? value : undefined
}

const asNumber = (given: Json, fromText: boolean) => {
  const value = fromText && typeof given === 'string' ? numberIn(given) : given
  return typeof value === 'number' ? value : undefined
}

const asTime = (given: Json) => {
  if (typeof given !== 'string' || !/^\d{4}-\d\d-\d\d(T.*)?$/.test(given)) return undefined
  const time = new Date(given)
  return Number.isNaN(time.getTime()) ? undefined : time.toISOString()
}

/** The types that models are made of; others can be made like them. */
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
  /** Compared as the text of `toISOString`, in which the order of texts is that of times. */
  dateTime: { kind: 'text', expected: 'a date and time by ISO 8601', read: asTime },
  compound: { kind: 'compound', expected: 'left to exists', read: () => undefined },
}
