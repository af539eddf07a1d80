import type {
  AccessOperation,
  BoundPattern,
  RuleNode,
  RulePattern,
} from '../language/rule-parser.ts'
import type { Findings, SourceFile } from '../language/source.ts'
import { isA, type Model, type Target, type TypeDeclaration } from '../model/model.ts'

/** A checked access rule: all types and namespaces to which the rule refers exist. */
export type AccessRule = Omit<RuleNode, 'at'>

const RULES_FILE = 'permissions.acl'

/** Checks that the types and namespaces in access rules exist, and adds problems to `findings`. */
export function checkRules(
  nodes: readonly RuleNode[],
  model: Model,
  findings: Findings,
  read: (path: string) => SourceFile,
): AccessRule[] {
  const file = read(RULES_FILE)
  for (const { participant, resource, transaction } of nodes) {
    checkPattern(participant, 'participant')
    checkPattern(resource, null)
    if (transaction !== null) checkPattern(transaction, 'transaction')
  }
  if (findings.clean) warnOfDeadRules(nodes, model, findings, file)
  return [...nodes]

  function checkPattern({ pattern, at }: BoundPattern, kind: TypeDeclaration['kind'] | null): void {
    if (pattern.kind === 'namespace' && !model.hasNamespace(pattern.namespace, pattern.deep)) {
      findings.error(file, at, `there is no namespace ${pattern.namespace}`)
    }
    if (pattern.kind !== 'type') return
    const type = model.type(pattern.type)
    if (type === null) findings.error(file, at, `there is no type ${pattern.type}`)
    else if (kind !== null && type.kind !== kind) {
      findings.error(file, at, `${pattern.type} has the kind ${type.kind}; expected ${kind}`)
    }
  }
}

/** Maximum rules, and maximum comparisons with a type, in the search for rules that never match. */
const RULES_COMPARED_MAX = 1_000
const COMPARISONS_MAX = 1_000_000
const NEVER = /return \(\s*false\s*\)/

/**
 * Warns of rules that can never match: those whose condition is false, those that cover no type with instances, and those
 * of which an earlier rule without a condition decides every case. If a network has very many rules, some are not compared.
 */
function warnOfDeadRules(
  rules: readonly RuleNode[],
  model: Model,
  findings: Findings,
  file: SourceFile,
): void {
  const concrete = [...model.types()].filter(({ abstract, kind }) => !abstract && kind !== 'enum')
  const types = {
    participant: concrete.filter(({ kind }) => kind === 'participant'),
    resource: concrete.filter(({ kind }) => kind !== 'concept'),
    transaction: concrete.filter(({ kind }) => kind === 'transaction'),
  }
  const deciding: RuleNode[] = []
  let left = COMPARISONS_MAX
  for (const rule of rules.slice(0, RULES_COMPARED_MAX)) {
    const { name, at, condition, transaction } = rule
    const warn = (reason: string, offset = at) =>
      findings.warningAt(file, offset, `rule ${name} never matches: ${reason}`)
    if (condition !== null && NEVER.test(condition)) warn('its condition is false')
    for (const part of ['participant', 'resource', 'transaction'] as const) {
      const bound = rule[part]
      const isCovered = ({ pattern }: BoundPattern) =>
        types[part].some((type) => covers(pattern, type, null) !== false)
      if (bound === null || isCovered(bound)) continue
      warn(`its ${part} covers no type that has instances`, bound.at)
    }
    const before = deciding.filter((earlier) => {
      left -= types.participant.length + types.resource.length
      return left > 0 && isDecided(rule, earlier, types)
    })
    const isEarlier = rule.operations.map((each) =>
      before.find(({ operations }) => operations.includes(each)),
    )
    const [first] = isEarlier
    if (first !== undefined && !isEarlier.includes(undefined)) {
      warn(`rule ${first.name} decides first`)
    }
    if (condition === null && transaction === null) deciding.push(rule)
  }
}

/** Whether `earlier` matches whenever `rule` does, apart from the operation. */
function isDecided(
  rule: RuleNode,
  earlier: RuleNode,
  types: Readonly<Record<'participant' | 'resource', readonly TypeDeclaration[]>>,
): boolean {
  return (['participant', 'resource'] as const).every((part) => {
    const { pattern } = rule[part]
    const id = pattern.kind === 'type' ? pattern.id : null
    return types[part].every(
      (type) =>
        covers(pattern, type, null) === false || covers(earlier[part].pattern, type, id) === true,
    )
  })
}

/** Whether a READ rule names the type of `event`, a supertype of that type, or the id of `event`. Ignores wildcards. */
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
 * Whether `pattern` covers the instance `id` of `type`. If `id` is null, returns null if the result depends on the
 * id. A namespace covers the types declared in it, but not their subtypes in other namespaces.
 */
function covers(
  pattern: RulePattern,
  type: TypeDeclaration,
  id: Target['id'] | null,
): boolean | null {
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

/** The type and id of a resource for which rules are evaluated. */
export interface Instance {
  readonly type: TypeDeclaration
  readonly id: string
}

export interface Subject extends Instance {
  /** Returns the JSON of the resource as conditions see it: before the change; null if it does not exist yet. */
  readonly content: () => string | null
}

export interface AccessContext {
  readonly participant: Instance
  /** The transaction in progress; null for a request outside of a transaction. */
  readonly transaction: Instance | null
}

export type ConditionalRule = AccessRule & { readonly condition: string }

/** Evaluates the condition of `rule` for each of `subjects`: true, false, or null if it throws. */
export type ConditionEvaluator = (
  rule: ConditionalRule,
  subjects: readonly Subject[],
) => Promise<readonly (boolean | null)[]>

/** Evaluates access rules. The first rule that matches decides; no match denies. Without rules, all is allowed. */
export class AccessControl {
  readonly #rules: readonly AccessRule[] | null

  constructor(rules: readonly AccessRule[] | null) {
    this.#rules = rules
  }

  /**
   * Returns for each of `subjects` whether `operation` is allowed. If a condition throws, an ALLOW rule does not
   * match and a DENY rule does, so that errors never allow anything.
   */
  async decide(
    operation: AccessOperation,
    subjects: readonly Subject[],
    context: AccessContext,
    evaluate: ConditionEvaluator,
  ): Promise<readonly boolean[]> {
    if (this.#rules === null) return subjects.map(() => true)
    const allowed = new Set<Subject>()
    let undecided = subjects
    for (const rule of this.#rules) {
      if (undecided.length === 0) break
      if (!applies(rule, operation, context)) continue
      const covered = undecided.filter(({ type, id }) => covers(rule.resource.pattern, type, id))
      if (covered.length === 0) continue
      const matched = new Set(await matchedBy(rule, covered, evaluate))
      if (rule.allows) for (const subject of matched) allowed.add(subject)
      undecided = undecided.filter((subject) => !matched.has(subject))
    }
    return subjects.map((subject) => allowed.has(subject))
  }

  /**
   * Whether `operation` is allowed on the instance `id` of `type` or, if `id` is null, on all instances; null if the
   * result depends on the instance or its content.
   */
  allowsAll(
    operation: AccessOperation,
    type: TypeDeclaration,
    context: AccessContext,
    id: Instance['id'] | null = null,
  ): boolean | null {
    if (this.#rules === null) return true
    /** The decisions of rules that may match. */
    const possible = new Set<boolean>()
    for (const { resource, condition, allows, ...rule } of this.#rules) {
      const covered = covers(resource.pattern, type, id)
      if (covered === false || !applies(rule, operation, context)) continue
      if (covered && condition === null) return possible.has(!allows) ? null : allows
      possible.add(allows)
    }
    return possible.has(true) ? null : false
  }
}

function applies(
  rule: Pick<AccessRule, 'operations' | 'participant' | 'transaction'>,
  operation: AccessOperation,
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
  evaluate: ConditionEvaluator,
): Promise<readonly Subject[]> {
  const { condition } = rule
  if (condition === null) return subjects
  const results = await evaluate({ ...rule, condition }, subjects)
  return subjects.filter((_subject, at) => results[at] ?? !rule.allows)
}
