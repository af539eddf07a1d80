import type { Operation } from '../language/rule-file.ts'
import type { TypeDeclaration } from '../model/model.ts'
import { type AccessRule, covers } from './rules.ts'

/** One instance of a type, as rules see it. */
export interface Instance {
  readonly type: TypeDeclaration
  readonly id: string
}

/** Who asks, and in which transaction. */
export interface AccessContext {
  readonly participant: Instance
  /** The transaction that is being processed; null for a plain read. */
  readonly transaction: Instance | null
}

/** What rules decide: the first that matches. No match denies; without rules all is allowed. */
export class AccessControl {
  readonly #rules: readonly AccessRule[] | null

  /** `rules` have no conditions: those are for the sandbox to evaluate. */
  constructor(rules: readonly AccessRule[] | null) {
    this.#rules = rules
  }

  /** Whether the context may do `operation` on `resource`. */
  allows(operation: Operation, resource: Instance, context: AccessContext): boolean {
    return this.#decide(operation, resource.type, resource.id, context) === true
  }

  /**
   * The same for all instances of `type` at once: true, false, or null when it depends on which one.
   */
  allowsAll(operation: Operation, type: TypeDeclaration, context: AccessContext): boolean | null {
    return this.#decide(operation, type, null, context)
  }

  #decide(
    operation: Operation,
    type: TypeDeclaration,
    id: string | null,
    { participant, transaction }: AccessContext,
  ): boolean | null {
    if (this.#rules === null) return true
    for (const rule of this.#rules) {
      if (!rule.operations.includes(operation)) continue
      if (covers(rule.participant.pattern, participant.type, participant.id) !== true) continue
      if (rule.transaction !== null) {
        if (transaction === null) continue
        const { pattern } = rule.transaction
        if (covers(pattern, transaction.type, transaction.id) !== true) continue
      }
      const covered = covers(rule.resource.pattern, type, id)
      if (covered === null) return null
      if (covered) return rule.allows
    }
    return false
  }
}
