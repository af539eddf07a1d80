import type { Bound, Operation, Pattern, RuleNode } from '../language/rule-file.ts'
import type { Findings, SourceFile } from '../language/source.ts'
import { isA, type Model, type TypeDeclaration } from '../model/model.ts'
import type { Target } from '../model/relationship.ts'

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

/** Checks that rules name what there is; what is wrong goes to `findings`. */
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
export function covers(
  pattern: Pattern,
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
