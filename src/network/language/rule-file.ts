// What `permissions.acl` says. `at` is an offset in its text.

/** What a rule can be about. */
export const OPERATIONS = ['CREATE', 'READ', 'UPDATE', 'DELETE'] as const
/** One of them. */
export type Operation = (typeof OPERATIONS)[number]

/**
 * Whom or what a rule is about: everything (`**`, and `ANY` of participants), all types of a
 * namespace (`ns.*`), also of those below it (`ns.**`), a type with its subtypes, or one instance.
 */
export type Pattern =
  | { readonly kind: 'any' }
  | { readonly kind: 'namespace'; readonly namespace: string; readonly deep: boolean }
  | { readonly kind: 'type'; readonly type: string; readonly id: string | null }

/** A pattern, with the name by which a condition knows what it matched. */
export interface Bound {
  readonly pattern: Pattern
  readonly variable: string | null
  readonly at: number
}

/** One rule. */
export interface RuleNode {
  readonly name: string
  readonly at: number
  readonly description: string
  readonly participant: Bound
  readonly operations: readonly Operation[]
  readonly resource: Bound
  readonly transaction: Bound | null
  /** One JavaScript expression. */
  readonly condition: { readonly text: string; readonly at: number } | null
  readonly allows: boolean
}
