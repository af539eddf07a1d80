import { CodedError } from '../base/coded-error.ts'
import type { Pattern } from './pattern.ts'

/** A value to compare with. */
export type Scalar = null | boolean | number | string

/** Member names, outermost first: `owner.name` is `['owner', 'name']`. */
export type Path = readonly string[]

export interface Bound {
  readonly value: number | string
  readonly inclusive: boolean
}

/** The test of one operator on the values at a path (`matches.ts`). */
export type Test =
  /** At least one value is in `values`. */
  | { readonly kind: 'equals'; readonly values: readonly Scalar[] }
  /** At least one value has the type of the bounds and lies between them. At least one bound is set. */
  | { readonly kind: 'range'; readonly from: Bound | null; readonly to: Bound | null }
  /** At least one value is a text that matches. */
  | { readonly kind: 'pattern'; readonly pattern: Pattern }
  /** The path has a value, even if the value is null. */
  | { readonly kind: 'exists' }

/** Applies `test` to the values at `path`; `negated` inverts the result. */
export interface Condition {
  readonly kind: 'condition'
  readonly path: Path
  readonly negated: boolean
  readonly test: Test
}

/** A predicate over JSON objects, as data. An empty `all` is true, an empty `any` false. */
export type Where = { readonly kind: 'all' | 'any'; readonly of: readonly Where[] } | Condition

export interface OrderTerm {
  readonly path: Path
  readonly descending: boolean
}

/** Top-level members to show (`only`) or to omit (`without`). */
export interface Fields {
  readonly kind: 'only' | 'without'
  readonly names: readonly string[]
}

export interface Filter {
  /** Selects the resources; null selects all. */
  readonly where: Where | null
  readonly order: readonly OrderTerm[]
  /** Maximum number of resources, at least 1; null for no limit. */
  readonly limit: number | null
  /** Number of resources to skip, or null. Clients may also call the member `skip`. */
  readonly offset: number | null
  /** The members to return; null returns whole resources. */
  readonly fields: Fields | null
  /** Whether the client requests resolved relationships (`include=resolve`). */
  readonly resolve: boolean
}

/** Limits of a filter. A filter beyond a limit is rejected with FILTER_TOO_LARGE. */
export const FILTER_LIMITS = {
  /** Length of the whole filter, in JSON form or in bracket form. */
  characters: 16_384,
  conditions: 100,
  /** Number of conditions with a pattern, each of which can need 8 MB for matching states. */
  patterns: 16,
  /** Nesting of `and` and `or`. */
  depth: 8,
  /** Number of names in a dotted path. */
  pathSteps: 8,
  pathCharacters: 256,
  /** Number of values of one `inq` or `nin`. */
  values: 1_000,
  orderTerms: 8,
  /** Number of names in `fields`. */
  fields: 100,
} as const

export type FilterErrorCode =
  | 'FILTER_MALFORMED' // not JSON, unmatched brackets, or a value that is not the required object or list
  | 'FILTER_UNKNOWN' // an unknown member or operator
  | 'FILTER_FIELD_UNKNOWN' // the model has no such field
  | 'FILTER_VALUE_WRONG' // a value of the wrong type, or out of range
  | 'FILTER_PATTERN_WRONG' // an invalid or unsupported pattern
  | 'FILTER_TOO_LARGE' // beyond FILTER_LIMITS

/** Thrown by `parseFilter`; the message begins with the JSON pointer of the error's location. */
export class FilterError extends CodedError<FilterErrorCode> {
  override readonly name = 'FilterError'
  /** JSON pointer (RFC 6901) to the error, from the filter's root: `/where/qty/lt`. */
  readonly pointer: string
  readonly reason: string

  constructor(code: FilterErrorCode, path: readonly (string | number)[], reason: string) {
    const pointer = path
      .map((part) => `/${String(part).slice(0, 64).replaceAll('~', '~0').replaceAll('/', '~1')}`)
      .join('')
    super(code, `filter${pointer}: ${reason}`)
    this.pointer = pointer
    this.reason = reason
  }
}

export const statusOfFilter: Record<FilterErrorCode, number> = {
  FILTER_MALFORMED: 400,
  FILTER_UNKNOWN: 400,
  FILTER_FIELD_UNKNOWN: 400,
  FILTER_VALUE_WRONG: 400,
  FILTER_PATTERN_WRONG: 400,
  FILTER_TOO_LARGE: 400,
}

/**
 * OpenAPI declaration of the query parameter `filter`. The schema declares the JSON form, and the description explains
 * the bracket form. The bracket form is not declared as a deep object, because tools serialize deep objects in
 * different ways.
 */
export const FILTER_PARAMETERS = {
  filter: {
    type: 'string',
    documentedPattern: '^\\s*\\{',
    description: `Filter, order and page of the items, as JSON or in brackets.

    {"where":{"country":"JP","qty":{"gte":1,"lt":5}},"order":["name ASC"],"limit":10,"offset":20,"fields":["name"]}
    filter[where][country]=JP&filter[where][qty][lt]=5&filter[order]=name ASC&filter[limit]=10

Operators: eq neq gt gte lt lte between inq nin like nlike ilike nilike regexp exists; and, or; paths with dots.
All operators of a field must hold.`,
  },
} as const
