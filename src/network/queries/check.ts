import type { Condition, Operand, QueryNode } from '../language/query-file.ts'
import type { Findings, SourceFile } from '../language/source.ts'
import type { Model, Property, TypeDeclaration } from '../model/model.ts'
import { propertyAt } from '../model/paths.ts'
import { canonical, type ParameterType } from './parameter.ts'

/** A query whose names and types are right. */
export interface NamedQuery
  extends Pick<QueryNode, 'name' | 'description' | 'where' | 'order' | 'limit' | 'skip'> {
  readonly type: TypeDeclaration
  /** What a request must give, by name. */
  readonly parameters: ReadonlyMap<string, ParameterType>
}

/** The file of queries in a network. */
const QUERIES_FILE = 'queries.qry'

/** Checks that queries ask for what there is; what is wrong goes to `findings`. */
export function checkQueries(
  nodes: readonly QueryNode[],
  model: Model,
  findings: Findings,
  read: (path: string) => SourceFile,
): Map<string, NamedQuery> {
  const file = read(QUERIES_FILE)
  const queries = new Map<string, NamedQuery>()
  for (const node of nodes) {
    const type = model.type(node.type)
    if (type === null || type.abstract || !SELECTABLE.includes(type.kind)) {
      findings.error(file, node.typeAt, `there are no resources of a type ${node.type} to select`)
      continue
    }
    const checker = new QueryChecker(type, model, findings, file)
    const { where, order, limit, skip } = node
    if (where !== null) checker.condition(where, type)
    for (const { path, at } of order) checker.property(path, type, at)
    for (const bound of [limit, skip]) if (bound?.kind === 'parameter') checker.count(bound)
    queries.set(node.name, { ...node, type, parameters: checker.parameters })
  }
  return queries
}

const SELECTABLE = ['asset', 'participant', 'transaction']
const ORDERED = ['DateTime', 'Double', 'Integer', 'Long', 'String']

class QueryChecker {
  readonly parameters = new Map<string, ParameterType>()
  readonly #type: TypeDeclaration
  readonly #model: Model
  readonly #findings: Findings
  readonly #file: SourceFile

  constructor(type: TypeDeclaration, model: Model, findings: Findings, file: SourceFile) {
    this.#type = type
    this.#model = model
    this.#findings = findings
    this.#file = file
  }

  /** Checks `condition` of instances of `holder`. */
  condition(condition: Condition, holder: TypeDeclaration): void {
    switch (condition.kind) {
      case 'and':
      case 'or':
        for (const part of condition.parts) this.condition(part, holder)
        return
      case 'compare':
        this.#compare(condition, holder)
        return
      case 'contains':
        this.#contains(condition, holder)
    }
  }

  property(path: readonly string[], holder: TypeDeclaration, at: number): Property | null {
    const property = propertyAt(this.#model, holder, path)
    if (property === null) this.#wrong(at, `${holder.name} has no property ${path.join('.')}`)
    return property
  }

  count({ name }: { name: string }): void {
    this.parameters.set(name, 'count')
  }

  #compare(condition: Extract<Condition, { kind: 'compare' }>, holder: TypeDeclaration): void {
    const { left, right, operator, at } = condition
    const [side, other] = left.kind === 'path' ? [left, right] : [right, left]
    if (side.kind !== 'path' || other.kind === 'path') {
      this.#wrong(at, 'a property is compared with a value or a parameter')
      return
    }
    const property = this.property(side.path, holder, side.at)
    if (property === null) return
    if (property.array || isCompound(property)) {
      this.#wrong(side.at, `${side.path.join('.')} cannot be compared; CONTAINS asks arrays`)
      return
    }
    if (operator !== '==' && operator !== '!=' && !ORDERED.includes(property.primitive ?? '')) {
      this.#wrong(at, `${side.path.join('.')} has no order: only == and != compare it`)
      return
    }
    this.#operand(other, property)
  }

  #contains(condition: Extract<Condition, { kind: 'contains' }>, holder: TypeDeclaration): void {
    const { path, values, where, at } = condition
    const property = this.property(path, holder, at)
    if (property === null) return
    if (!property.array) {
      this.#wrong(at, `${path.join('.')} is no array to contain something`)
    } else if (where !== null) {
      if (property.type !== null && isCompound(property)) this.condition(where, property.type)
      else this.#wrong(at, `elements of ${path.join('.')} have no properties`)
    } else if (isCompound(property)) {
      this.#wrong(at, `elements of ${path.join('.')} are asked by a condition in parentheses`)
    } else {
      for (const value of values) this.#operand(value, property)
    }
  }

  #operand(operand: Operand, property: Property): void {
    if (operand.kind === 'parameter') {
      const before = this.parameters.get(operand.name)
      if (before !== undefined && before !== 'count' && before.primitive !== property.primitive) {
        this.#wrong(operand.at, `_$${operand.name} is compared with properties of two types`)
      }
      this.parameters.set(operand.name, before ?? property)
      return
    }
    if (operand.kind === 'value' && !this.#fits(operand.value, property)) {
      this.#wrong(operand.at, `${JSON.stringify(operand.value)} is no value of ${property.name}`)
    }
  }

  #fits(value: string | number | boolean | null, property: Property): boolean {
    if (value === null) return true
    switch (property.primitive) {
      case 'Boolean':
        return typeof value === 'boolean'
      case 'Double':
      case 'Integer':
      case 'Long':
        return typeof value === 'number'
      default:
        return typeof value === 'string' && canonical(value, property, this.#model) !== undefined
    }
  }

  #wrong(at: number, message: string): void {
    this.#findings.error(this.#file, at, `${message} (query on ${this.#type.name})`)
  }
}

function isCompound({ primitive, relationship, type }: Property): boolean {
  return primitive === null && !relationship && type?.kind !== 'enum'
}
