// What `queries.qry` says. `at` is an offset in its text.

/** What stands on a side of a comparison. */
export type Operand =
  | { readonly kind: 'path'; readonly path: readonly string[]; readonly at: number }
  | { readonly kind: 'parameter'; readonly name: string; readonly at: number }
  | {
      readonly kind: 'value'
      readonly value: string | number | boolean | null
      readonly at: number
    }

/** How two operands are compared. */
export const COMPARISONS = ['==', '!=', '>=', '<=', '>', '<'] as const
/** One of them. */
export type Comparison = (typeof COMPARISONS)[number]

/** A condition of a query. */
export type Condition =
  | { readonly kind: 'and' | 'or'; readonly parts: readonly Condition[] }
  | {
      readonly kind: 'compare'
      readonly operator: Comparison
      readonly left: Operand
      readonly right: Operand
      readonly at: number
    }
  | {
      /** The array at `path` holds each of `values`, or an element for which `where` holds. */
      readonly kind: 'contains'
      readonly path: readonly string[]
      readonly values: readonly Operand[]
      readonly where: Condition | null
      readonly at: number
    }

/** How many results, or from which on. */
export type Bound = Extract<Operand, { kind: 'parameter' | 'value' }>

/** One named query. */
export interface QueryNode {
  readonly name: string
  readonly at: number
  readonly description: string
  readonly type: string
  readonly typeAt: number
  /** The registry named after FROM, when it is not the type's own. */
  readonly registry: string | null
  readonly where: Condition | null
  readonly order: readonly {
    readonly path: readonly string[]
    readonly descending: boolean
    readonly at: number
  }[]
  readonly limit: Bound | null
  readonly skip: Bound | null
}
