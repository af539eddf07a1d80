import { NetworkError } from '../errors.ts'
import {
  type Operand,
  parseQueries,
  type QueryCondition,
  type QueryNode,
} from '../language/query-parser.ts'
import { Findings, type SourceFile } from '../language/source.ts'
import { type Model, type Property, propertyAt, type TypeDeclaration } from '../model/model.ts'
import { canonical, type ParameterType } from './predicate.ts'

/** A checked query: its types and properties exist. */
export interface NamedQuery
  extends Pick<QueryNode, 'name' | 'description' | 'where' | 'order' | 'limit' | 'skip'> {
  readonly type: TypeDeclaration
  readonly parameters: ReadonlyMap<string, ParameterType>
}

const QUERIES_FILE = 'queries.qry'

/** Checks that the types and properties in queries exist, and adds problems to `findings`. */
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
      findings.error(
        file,
        node.typeAt,
        `${node.type} is not an asset, participant or transaction type`,
      )
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

  /** Checks `condition` for instances of `holder`. */
  condition(condition: QueryCondition, holder: TypeDeclaration): void {
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

  /**
   * Returns the property at `path`, or reports an error and returns null. A path that continues after a relationship
   * is accepted with a warning, because no resource matches it.
   */
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
      const property = this.#find(path.slice(length), link.type)
      if (property !== null) this.#warn(`${path.join('.')} is a property of another resource`)
      return property
    }
    return null
  }

  count({ name }: { name: string }): void {
    this.parameters.set(name, 'count')
  }

  #compare(condition: Extract<QueryCondition, { kind: 'compare' }>, holder: TypeDeclaration): void {
    const { left, right, operator, at } = condition
    const [side, operand] = left.kind === 'path' ? [left, right] : [right, left]
    if (side.kind !== 'path' || operand.kind === 'path') {
      this.#wrong(at, 'a property must be compared with a value or a parameter')
      return
    }
    const property = this.property(side.path, holder, side.at)
    if (property === null) return
    if (property.primitive === 'Boolean' && operator !== '==' && operator !== '!=') {
      this.#wrong(at, `${side.path.join('.')} is a Boolean: only == and != can compare it`)
    } else if (!isCompound(property)) {
      this.#operand(operand, property, true)
    } else if (operand.kind === 'parameter') {
      this.#warn(`${side.path.join('.')} is an object, which equals no value`)
      this.#operand(operand, property, true)
    } else {
      this.#wrong(side.at, `${side.path.join('.')} is an object: compare its properties`)
    }
  }

  #contains(
    condition: Extract<QueryCondition, { kind: 'contains' }>,
    holder: TypeDeclaration,
  ): void {
    const { path, values, where, at } = condition
    const name = path.join('.')
    const property = this.#find(path, holder)
    if (property === null) {
      // Like Composer, accepts an unknown property, unless it is a path, or its type is needed.
      const isNested = path.length > 1 || where !== null
      if (isNested || values.some(({ kind }) => kind === 'parameter')) {
        this.#wrong(at, `${holder.name} has no property ${name}`)
      } else this.#warn(`${holder.name} has no property ${name}`)
      return
    }
    if (!property.array) this.#warn(`${name} is not an array`)
    if (where !== null) {
      if (property.type === null || property.type.kind === 'enum') {
        this.#wrong(at, `the elements of ${name} have no properties`)
        return
      }
      if (property.relationship) this.#warn(`the elements of ${name} are relationships`)
      this.condition(where, property.type)
      return
    }
    if (isCompound(property))
      this.#warn(`the elements of ${name} are objects, which equal no value`)
    for (const value of values) this.#operand(value, property, false)
  }

  /** Checks a value compared with `property`. If the value has a wrong type, adds an error (`strict`) or a warning. */
  #operand(operand: Operand, property: Property, strict: boolean): void {
    if (operand.kind === 'parameter') {
      this.parameters.set(operand.name, property)
      return
    }
    if (operand.kind !== 'value' || isCompound(property)) return
    if (this.#fits(operand.value, property)) return
    const text = `${JSON.stringify(operand.value)} does not have the type of ${property.name}`
    // Like Composer, accepts every text for a relationship.
    if (strict && !(property.relationship && typeof operand.value === 'string'))
      this.#wrong(operand.at, text)
    else this.#warn(text)
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
        // Like Composer, accepts every format that `Date` can parse, although dates are compared as strings.
        return typeof value === 'string' && !Number.isNaN(Date.parse(value))
      default:
        return typeof value === 'string' && canonical(value, property, this.#model) !== undefined
    }
  }

  /** Adds a warning about a condition that Composer accepts, but that no resource matches. */
  #warn(message: string): void {
    const { path } = this.#file
    this.#findings.warning(path, `${message}: no resource matches (query on ${this.#type.name})`)
  }

  #wrong(at: number, message: string): void {
    this.#findings.error(this.#file, at, `${message} (query on ${this.#type.name})`)
  }
}

function isCompound({ primitive, relationship, type }: Property): boolean {
  return primitive === null && !relationship && type?.kind !== 'enum'
}

/** Maximum characters of a query from a client or a processor. */
const TEXT_LENGTH_MAX = 10_000

/** Parses and checks the statement `SELECT …` of a client or a processor. Errors: PARAMETER_INVALID. */
export function parseStatement(text: string, model: Model): NamedQuery {
  if (text.length > TEXT_LENGTH_MAX) {
    throw new NetworkError(
      'PARAMETER_INVALID',
      `a query may have at most ${TEXT_LENGTH_MAX} characters`,
    )
  }
  const file = { path: 'query', text: `query written { statement:\n${text}\n}` }
  const findings = new Findings()
  const query = checkQueries(parseQueries(file, findings), model, findings, () => file).get(
    'written',
  )
  if (query !== undefined && findings.clean) return query
  const [first] = findings.sorted()
  const message = `the query is invalid: ${first?.message ?? 'it has no statement'}`
  throw new NetworkError('PARAMETER_INVALID', message)
}
