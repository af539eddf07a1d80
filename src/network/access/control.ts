import type { JsonObject } from '../../base/json.ts'
import type { Bound, Operation, Pattern, RuleNode } from '../language/rule-parser.ts'
import type { Findings, SourceFile } from '../language/source.ts'
import { isA, type Model, type Target, type TypeDeclaration } from '../model/model.ts'

/** A rule whose names all exist. */
export interface AccessRule {
  readonly name: string
  readonly description: string
  readonly participant: Bound
  readonly operations: readonly Operation[]
  readonly resource: Bound
  /** Only while a transaction of this kind is processed; null for always. */
  readonly transaction: Bound | null
  /** A JavaScript expression over the rule's variables, or null. */
  readonly condition: string | null
  readonly allows: boolean
}

/** The file of access rules in a network. */
const RULES_FILE = 'permissions.acl'

/** Checks the names in rules; adds problems to `findings`. */
export function checkRules(
  nodes: readonly RuleNode[],
  model: Model,
  findings: Findings,
  read: (path: string) => SourceFile,
): AccessRule[] {
  const file = read(RULES_FILE)
  return nodes.map((node) => {
    const { participant, resource, transaction, condition } = node
    checkPattern(participant, 'participant')
    checkPattern(resource, null)
    if (transaction !== null) checkPattern(transaction, 'transaction')
    return { ...node, condition: condition?.text ?? null }
  })

  function checkPattern({ pattern, at }: Bound, kind: TypeDeclaration['kind'] | null): void {
    if (pattern.kind === 'namespace' && !model.hasNamespace(pattern.namespace, pattern.deep)) {
      findings.error(file, at, `there is no namespace ${pattern.namespace}`)
    }
    if (pattern.kind !== 'type') return
    const type = model.type(pattern.type)
    if (type === null) findings.error(file, at, `there is no type ${pattern.type}`)
    else if (kind !== null && type.kind !== kind) {
      findings.error(file, at, `${pattern.type} is no ${kind}`)
    }
  }
}

/** Whether a READ rule names the type of an event, or one that it extends; wildcards name none. */
export function namesEvent(
  rules: readonly AccessRule[] | null,
  event: Target,
  model: Model,
): boolean {
  const type = model.type(event.type)
  return (rules ?? []).some(({ operations, resource: { pattern } }) => {
    if (type === null || pattern.kind !== 'type' || !operations.includes('READ')) return false
    return covers(pattern, type, event.id) === true
  })
}

/**
 * Whether `pattern` covers the instance `id` of `type`; null when that depends on an id that is not
 * known yet. A namespace covers the types that are declared in it, not those that extend them.
 */
function covers(pattern: Pattern, type: TypeDeclaration, id: Target['id'] | null): boolean | null {
  switch (pattern.kind) {
    case 'any':
      return true
    case 'namespace':
      if (type.namespace === pattern.namespace) return true
      return pattern.deep && type.namespace.startsWith(`${pattern.namespace}.`)
    case 'type':
      if (!isA(type, pattern.type)) return false
      if (pattern.id === null) return true
      return id === null ? null : pattern.id === id
  }
}

/** One instance of a type, as rules see it. */
export interface Instance {
  readonly type: TypeDeclaration
  readonly id: string
}

export interface Subject extends Instance {
  /** The content for conditions, before a change; null if there is none. */
  readonly content: () => JsonObject | null
}

export interface AccessContext {
  readonly participant: Instance
  /** The transaction that is being processed; null for a plain read. */
  readonly transaction: Instance | null
}

export type ConditionalRule = AccessRule & { readonly condition: string }

/** Evaluates the condition of `rule` for each of `subjects`: true, false, or null where it throws. */
export type AskCondition = (
  rule: ConditionalRule,
  subjects: readonly Subject[],
) => Promise<readonly (boolean | null)[]>

/** Decides by the first rule that matches. No match denies; without rules everything is allowed. */
export class AccessControl {
  readonly #rules: readonly AccessRule[] | null

  constructor(rules: readonly AccessRule[] | null) {
    this.#rules = rules
  }

  /**
   * Whether the context may do `operation` on each of `subjects`. A condition that throws does not
   * hold in an ALLOW, and holds in a DENY: in doubt nothing is allowed.
   */
  async decide(
    operation: Operation,
    subjects: readonly Subject[],
    context: AccessContext,
    ask: AskCondition,
  ): Promise<readonly boolean[]> {
    if (this.#rules === null) return subjects.map(() => true)
    const allowed = new Set<Subject>()
    let open = subjects
    for (const rule of this.#rules) {
      if (open.length === 0) break
      if (!applies(rule, operation, context)) continue
      const covered = open.filter(({ type, id }) => covers(rule.resource.pattern, type, id))
      if (covered.length === 0) continue
      const matched = new Set(await matchedBy(rule, covered, ask))
      if (rule.allows) for (const subject of matched) allowed.add(subject)
      open = open.filter((subject) => !matched.has(subject))
    }
    return subjects.map((subject) => allowed.has(subject))
  }

  /**
   * The same for all instances of `type` at once: true, false, or null when it depends on which one.
   */
  allowsAll(operation: Operation, type: TypeDeclaration, context: AccessContext): boolean | null {
    if (this.#rules === null) return true
    for (const rule of this.#rules) {
      if (!applies(rule, operation, context)) continue
      const covered = covers(rule.resource.pattern, type, null)
      if (covered === null || (covered && rule.condition !== null)) return null
      if (covered) return rule.allows
    }
    return false
  }
}

/** Whether a rule is about this operation of this participant in this transaction. */
function applies(
  rule: AccessRule,
  operation: Operation,
  { participant, transaction }: AccessContext,
): boolean {
  if (!rule.operations.includes(operation)) return false
  if (covers(rule.participant.pattern, participant.type, participant.id) !== true) return false
  if (rule.transaction === null) return true
  if (transaction === null) return false
  return covers(rule.transaction.pattern, transaction.type, transaction.id) === true
}

async function matchedBy(
  rule: AccessRule,
  subjects: readonly Subject[],
  ask: AskCondition,
): Promise<readonly Subject[]> {
  const { condition } = rule
  if (condition === null) return subjects
  const answers = await ask({ ...rule, condition }, subjects)
  return subjects.filter((_subject, at) => answers[at] ?? !rule.allows)
}
