import { NetworkError } from '../errors.ts'
import {
  type Condition,
  type Operand,
  parseQueries,
  type QueryNode,
} from '../language/query-parser.ts'
import { Findings, type SourceFile } from '../language/source.ts'
import { type Model, type Property, propertyAt, type TypeDeclaration } from '../model/model.ts'
import { canonical, type ParameterType } from './predicate.ts'

/** A query whose names and types are right. */
export interface NamedQuery
  extends Pick<QueryNode, 'name' | 'description' | 'where' | 'order' | 'limit' | 'skip'> {
  readonly type: TypeDeclaration
  /** The parameters of a request, by name. */
  readonly parameters: ReadonlyMap<string, ParameterType>
}

/** The file of queries in a network. */
const QUERIES_FILE = 'queries.qry'

/** Checks the types and fields of queries; adds problems to `findings`. */
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
    if (type === null || !SELECTABLE.includes(type.kind)) {
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

  /** The property at `path`; behind a relationship, where nothing matches, that of its type. */
  property(path: readonly string[], holder: TypeDeclaration, at: number): Property | null {
    const property = this.#find(path, holder)
    if (property === null) this.#wrong(at, `${holder.name} has no property ${path.join('.')}`)
    return property
  }

  #find(path: readonly string[], holder: TypeDeclaration): Property | null {
    const property = propertyAt(this.#model, holder, path)
    if (property !== null) return property
    for (let length = path.length - 1; length > 0; length -= 1) {
      const link = propertyAt(this.#model, holder, path.slice(0, length))
      if (link?.relationship !== true || link.type === null) continue
      const behind = this.#find(path.slice(length), link.type)
      if (behind !== null) this.#idle(`${path.join('.')} lies behind a relationship`)
      return behind
    }
    return null
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
    if (property.primitive === 'Boolean' && operator !== '==' && operator !== '!=') {
      this.#wrong(at, `${side.path.join('.')} has no order: only == and != compare it`)
    } else if (!isCompound(property)) {
      this.#operand(other, property, true)
    } else if (other.kind === 'parameter') {
      this.#idle(`${side.path.join('.')} has properties and equals no value`)
      this.#operand(other, property, true)
    } else {
      this.#wrong(side.at, `${side.path.join('.')} has properties: compare those`)
    }
  }

  #contains(condition: Extract<Condition, { kind: 'contains' }>, holder: TypeDeclaration): void {
    const { path, values, where, at } = condition
    const name = path.join('.')
    const property = this.#find(path, holder)
    if (property === null) {
      // Composer accepts an unknown property here unless it has to tell the type of a parameter.
      if (where !== null || values.some(({ kind }) => kind === 'parameter')) {
        this.#wrong(at, `${holder.name} has no property ${name}`)
      } else this.#idle(`${holder.name} has no property ${name}`)
      return
    }
    if (!property.array) this.#idle(`${name} is no array`)
    if (where !== null) {
      if (property.type === null || property.type.kind === 'enum') {
        this.#wrong(at, `elements of ${name} have no properties`)
        return
      }
      if (property.relationship) this.#idle(`${name} holds relationships`)
      this.condition(where, property.type)
      return
    }
    if (isCompound(property)) this.#idle(`elements of ${name} have properties and equal no value`)
    for (const value of values) this.#operand(value, property, false)
  }

  /** Checks a value that is compared with `property`; unless `strict`, one of another type may be. */
  #operand(operand: Operand, property: Property, strict: boolean): void {
    if (operand.kind === 'parameter') {
      this.parameters.set(operand.name, property)
      return
    }
    if (operand.kind !== 'value' || isCompound(property)) return
    if (this.#fits(operand.value, property)) return
    const text = `${JSON.stringify(operand.value)} is no value of ${property.name}`
    if (strict) this.#wrong(operand.at, text)
    else this.#idle(text)
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
      case 'DateTime':
        // As Composer does: a text in another form is compared as it is.
        return typeof value === 'string' && !Number.isNaN(Date.parse(value))
      default:
        return typeof value === 'string' && canonical(value, property, this.#model) !== undefined
    }
  }

  /** Warns of a part that Composer accepts although no resource matches it. */
  #idle(message: string): void {
    const { path } = this.#file
    this.#findings.warning(path, `${message}: nothing matches (query on ${this.#type.name})`)
  }

  #wrong(at: number, message: string): void {
    this.#findings.error(this.#file, at, `${message} (query on ${this.#type.name})`)
  }
}

function isCompound({ primitive, relationship, type }: Property): boolean {
  return primitive === null && !relationship && type?.kind !== 'enum'
}

/** Characters of a query that a processor writes itself. */
const TEXT_LENGTH_MAX = 10_000

/** The query with the statement `text`: `SELECT …`. Errors: PARAMETER_INVALID. */
export function writtenQuery(text: string, model: Model): NamedQuery {
  if (text.length > TEXT_LENGTH_MAX) {
    throw new NetworkError('PARAMETER_INVALID', `a query has ${TEXT_LENGTH_MAX} characters at most`)
  }
  const file = { path: 'query', text: `query written { statement:\n${text}\n}` }
  const findings = new Findings()
  const query = checkQueries(parseQueries(file, findings), model, findings, () => file).get(
    'written',
  )
  if (query !== undefined && findings.clean) return query
  const [first] = findings.sorted()
  const message = `the query is wrong: ${first?.message ?? 'it selects nothing'}`
  throw new NetworkError('PARAMETER_INVALID', message)
}
