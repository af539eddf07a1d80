import type { Pattern } from './pattern.ts'

/** What members are compared with. */
export type Scalar = null | boolean | number | string

/** Member names from the resource inwards: `owner.name` is `['owner', 'name']`. */
export type Path = readonly string[]

/** One end of a range. */
export interface Bound {
  readonly value: number | string
  readonly inclusive: boolean
}

/** What one operator asks of the values that a path reaches (`values.ts` says which those are). */
export type Test =
  /** One of them is one of `values`. */
  | { readonly kind: 'equals'; readonly values: readonly Scalar[] }
  /** One of them has the type of the bounds and lies between them. At least one bound is there. */
  | { readonly kind: 'range'; readonly from: Bound | null; readonly to: Bound | null }
  /** One of them is a text that fits. */
  | { readonly kind: 'pattern'; readonly pattern: Pattern }
  /** The path reaches something, be it null. */
  | { readonly kind: 'exists' }

/** `test` of the values at `path`; with `negated` exactly the opposite. */
export interface Condition {
  readonly kind: 'condition'
  readonly path: Path
  readonly negated: boolean
  readonly test: Test
}

/** A predicate over JSON objects, as data. `all` of nothing holds, `any` of nothing does not. */
export type Where = { readonly kind: 'all' | 'any'; readonly of: readonly Where[] } | Condition

/** One criterion of an order. */
export interface OrderTerm {
  readonly path: Path
  readonly descending: boolean
}

/** Members of the resource itself that are shown (`only`) or left out. */
export interface Fields {
  readonly kind: 'only' | 'without'
  readonly names: readonly string[]
}

/** A filter that was read and found right. */
export interface Filter {
  /** Null when everything is wanted. */
  readonly where: Where | null
  /** Empty when none was asked for. */
  readonly order: readonly OrderTerm[]
  /** 1 or more; null when none was given. */
  readonly limit: number | null
  /** 0 or more; null when none was given. `skip` is another name of it. */
  readonly offset: number | null
  /** Null when whole resources are wanted. */
  readonly fields: Fields | null
  /** Whether `include=resolve` asks for what relationships name. */
  readonly resolve: boolean
}

/** The most that a filter may hold; each is refused with FILTER_TOO_LARGE beyond. */
export const FILTER_LIMITS = {
  /** Characters of the whole filter, in either form. */
  characters: 16_384,
  /** Conditions in `where`, all together. */
  conditions: 100,
  /** Conditions with a pattern; matching one may hold 8 MB of states. */
  patterns: 16,
  /** How deep `and` and `or` nest. */
  depth: 8,
  /** Members of a dotted path. */
  pathSteps: 8,
  /** Characters of a dotted path. */
  pathCharacters: 256,
  /** Values of one `inq` or `nin`. */
  values: 1_000,
  /** Criteria of an order. */
  orderTerms: 8,
  /** Names in `fields`. */
  fields: 100,
} as const
