import { type Findings, type SourceFile, SyntaxFailure, Tokens } from './source.ts'

// The syntax tree of `queries.qry`. `at` is an offset in the file.

/** One side of a comparison. */
export type Operand =
  | { readonly kind: 'path'; readonly path: readonly string[]; readonly at: number }
  | { readonly kind: 'parameter'; readonly name: string; readonly at: number }
  | {
      readonly kind: 'value'
      readonly value: string | number | boolean | null
      readonly at: number
    }

const COMPARISONS = ['==', '!=', '>=', '<=', '>', '<'] as const
export type ComparisonOperator = (typeof COMPARISONS)[number]

export type QueryCondition =
  | { readonly kind: 'and' | 'or'; readonly parts: readonly QueryCondition[] }
  | {
      readonly kind: 'compare'
      readonly operator: ComparisonOperator
      readonly left: Operand
      readonly right: Operand
      readonly at: number
    }
  | {
      /** The array at `path` contains all of `values`, or an element that matches `where`. */
      readonly kind: 'contains'
      readonly path: readonly string[]
      readonly values: readonly Operand[]
      readonly where: QueryCondition | null
      readonly at: number
    }

/** The argument of LIMIT or SKIP. */
export type RowLimit = Extract<Operand, { kind: 'parameter' | 'value' }>

export interface QueryNode {
  readonly name: string
  readonly at: number
  readonly description: string
  readonly type: string
  readonly typeAt: number
  /** The name after FROM; null without FROM. */
  readonly registry: string | null
  readonly where: QueryCondition | null
  readonly order: readonly {
    readonly path: readonly string[]
    readonly descending: boolean
    readonly at: number
  }[]
  readonly limit: RowLimit | null
  readonly skip: RowLimit | null
}

/** Maximum nesting depth of conditions. */
const DEPTH_MAX = 32
const PARAMETER = '_$'
const HEX_DIGITS = /^[xX][\da-fA-F]+$/
const CONSTANTS = new Map<string, boolean | null>([
  ['true', true],
  ['false', false],
  ['null', null],
])

/** Parses the named queries of a network and adds problems to `findings`. */
export function parseQueries(file: SourceFile, findings: Findings): QueryNode[] {
  const tokens = new Tokens(file, findings)
  const queries: QueryNode[] = []
  while (!tokens.ended) {
    try {
      const query = new QueryParser(tokens).query()
      if (queries.some(({ name }) => name === query.name)) {
        tokens.failure(query.at, `duplicate query ${query.name}`)
      }
      queries.push(query)
    } catch (error) {
      if (!(error instanceof SyntaxFailure)) throw error
      do tokens.take()
      while (!tokens.is('query') && !tokens.ended)
    }
  }
  return queries
}

class QueryParser {
  readonly #tokens: Tokens
  #depth = 0

  constructor(tokens: Tokens) {
    this.#tokens = tokens
  }

  query(): QueryNode {
    const tokens = this.#tokens
    tokens.expect('query')
    const { text: name, start: at } = tokens.expectKind('name', 'the name of the query')
    tokens.expect('{')
    let description = ''
    if (tokens.accept('description')) {
      tokens.expect(':')
      description = tokens.expectKind('string', 'a text').text
    }
    tokens.expect('statement')
    tokens.expect(':')
    const query = { name, at, description, ...this.#statement() }
    tokens.expect('}')
    return query
  }

  #statement(): Omit<QueryNode, 'name' | 'at' | 'description'> {
    const tokens = this.#tokens
    tokens.expect('SELECT')
    const { name: type, at: typeAt } = tokens.qualifiedName('the type to select')
    const registry = tokens.accept('FROM') ? this.#registry() : null
    const where = tokens.accept('WHERE') ? this.#or() : null
    const order = tokens.is('ORDER') ? this.#order() : []
    const limit = tokens.accept('LIMIT') ? this.#bound() : null
    const skip = tokens.accept('SKIP') ? this.#bound() : null
    return { type, typeAt, registry, where, order, limit, skip }
  }

  #registry(): string {
    const tokens = this.#tokens
    return tokens.current.kind === 'string'
      ? tokens.take().text
      : tokens.qualifiedName('the name of a registry').name
  }

  #order(): QueryNode['order'] {
    const tokens = this.#tokens
    tokens.expect('ORDER')
    tokens.expect('BY')
    const bracketed = tokens.accept('[')
    const order: { path: string[]; descending: boolean; at: number }[] = []
    do {
      const { name, at } = tokens.qualifiedName('a property to order by')
      const descending = tokens.accept('DESC')
      if (!descending) tokens.accept('ASC')
      order.push({ path: name.split('.'), descending, at })
    } while (tokens.accept(','))
    if (bracketed) tokens.expect(']')
    return order
  }

  #bound(): RowLimit {
    const operand = this.#operand()
    if (operand.kind === 'parameter') return operand
    const { kind } = operand
    if (kind === 'value' && Number.isInteger(operand.value) && Number(operand.value) >= 0) {
      return operand
    }
    throw this.#tokens.failure(
      operand.at,
      'LIMIT and SKIP need a non-negative integer or a parameter',
    )
  }

  #or(): QueryCondition {
    return this.#chain('or', 'OR', () => this.#chain('and', 'AND', () => this.#term()))
  }

  #chain(kind: 'and' | 'or', word: string, read: () => QueryCondition): QueryCondition {
    const first = read()
    const parts = [first]
    while (this.#tokens.accept(word)) parts.push(read())
    return parts.length === 1 ? first : { kind, parts }
  }

  #term(): QueryCondition {
    const tokens = this.#tokens
    if (!tokens.is('(')) return this.#comparison()
    const { start } = tokens.take()
    this.#depth += 1
    if (this.#depth > DEPTH_MAX)
      throw tokens.failure(start, `conditions are nested more than ${DEPTH_MAX} levels deep`)
    const condition = this.#or()
    this.#depth -= 1
    tokens.expect(')')
    const { start: at } = tokens.current
    if (!tokens.accept('CONTAINS')) return condition
    return { kind: 'contains', path: this.#path(), values: [], where: condition, at }
  }

  #comparison(): QueryCondition {
    const tokens = this.#tokens
    if (tokens.is('[')) {
      const values = this.#list()
      const { start: at } = tokens.expect('CONTAINS')
      return { kind: 'contains', path: this.#path(), values, where: null, at }
    }
    const left = this.#operand()
    const { start: at } = tokens.current
    if (tokens.accept('CONTAINS')) {
      if (left.kind === 'path') return this.#contains(left.path, at)
      return { kind: 'contains', path: this.#path(), values: [left], where: null, at }
    }
    const operator = this.#operator()
    const isNested = tokens.accept('(')
    const right = this.#operand()
    if (isNested) tokens.expect(')')
    return { kind: 'compare', operator, left, right, at }
  }

  #operator(): ComparisonOperator {
    const operator = COMPARISONS.find((known) => this.#tokens.is(known))
    if (operator === undefined) throw this.#tokens.unexpected('==, !=, >, >=, <, <= or CONTAINS')
    this.#tokens.take()
    return operator
  }

  #contains(path: readonly string[], at: number): QueryCondition {
    const tokens = this.#tokens
    const none = { kind: 'contains', path, at } as const
    if (tokens.is('(')) return { ...none, values: [], where: this.#term() }
    const values = tokens.is('[') ? this.#list() : [this.#element()]
    return { ...none, values, where: null }
  }

  #list(): Operand[] {
    const tokens = this.#tokens
    tokens.expect('[')
    const values: Operand[] = []
    while (!tokens.is(']')) {
      values.push(this.#element())
      if (!tokens.is(']')) tokens.expect(',')
    }
    tokens.take()
    return values
  }

  #path(): string[] {
    const operand = this.#operand()
    if (operand.kind === 'path') return [...operand.path]
    throw this.#tokens.failure(operand.at, 'one side of CONTAINS must be a property')
  }

  #element(): Operand {
    const operand = this.#operand()
    if (operand.kind !== 'path') return operand
    throw this.#tokens.failure(
      operand.at,
      'CONTAINS needs a value, a parameter, or a condition in parentheses',
    )
  }

  #operand(): Operand {
    const tokens = this.#tokens
    const { kind, text, start: at } = tokens.current
    if (kind === 'string' || kind === 'number') {
      const { end } = tokens.take()
      const { current } = tokens
      // `Tokens` reads a hexadecimal number such as `0x1f` as two tokens, `0` and `x1f`, which are joined here. Only
      // queries can contain hexadecimal numbers.
      const isHex = text === '0' && current.start === end && HEX_DIGITS.test(current.text)
      const digits = isHex ? text + tokens.take().text : text
      return { kind: 'value', value: kind === 'string' ? text : Number(digits), at }
    }
    const constant = CONSTANTS.get(text)
    if (kind === 'name' && constant !== undefined) {
      tokens.take()
      return { kind: 'value', value: constant, at }
    }
    if (kind === 'name' && text.startsWith(PARAMETER) && text !== PARAMETER) {
      tokens.take()
      return { kind: 'parameter', name: text.slice(PARAMETER.length), at }
    }
    const { name } = tokens.qualifiedName('a property, a value or a parameter')
    return { kind: 'path', path: name.split('.'), at }
  }
}
