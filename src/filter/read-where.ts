import { isJsonObject, type Json } from '../base/json.ts'
import { type FieldType, isNumberText, parseExactNumber } from './field-type.ts'
import {
  type Bound,
  type Condition,
  FILTER_LIMITS,
  type FilterError,
  type Path,
  type Scalar,
  type Test,
  type Where,
} from './filter.ts'
import { type FilterLocation, requireList, requirePath } from './location.ts'
import { likePattern, type Pattern, PatternError, regexpPattern } from './pattern.ts'

interface Operand {
  readonly given: Json
  readonly location: FilterLocation
  readonly type: FieldType | null
}

type ConditionTest = Pick<Condition, 'negated' | 'test'>

const toTest = (test: Test): ConditionTest => ({ negated: false, test })
const toNegatedTest = (test: Test): ConditionTest => ({ negated: true, test })
const lowerBound = (operand: Operand, inclusive: boolean): ConditionTest =>
  toTest({ kind: 'range', from: parseBound(operand, inclusive), to: null })
const upperBound = (operand: Operand, inclusive: boolean): ConditionTest =>
  toTest({ kind: 'range', from: null, to: parseBound(operand, inclusive) })

/** The prefix `n` negates an operator. */
const OPERATORS = new Map<string, (operand: Operand) => ConditionTest>([
  ['eq', (operand) => toTest({ kind: 'equals', values: parseValues(operand) })],
  ['neq', (operand) => toNegatedTest({ kind: 'equals', values: parseValues(operand) })],
  ['gt', (operand) => lowerBound(operand, false)],
  ['gte', (operand) => lowerBound(operand, true)],
  ['lt', (operand) => upperBound(operand, false)],
  ['lte', (operand) => upperBound(operand, true)],
  ['between', (operand) => toTest(parseBetween(operand))],
  ['inq', (operand) => toTest({ kind: 'equals', values: parseListed(operand) })],
  ['nin', (operand) => toNegatedTest({ kind: 'equals', values: parseListed(operand) })],
  ['like', (operand) => toTest(parseLike(operand, false))],
  ['nlike', (operand) => toNegatedTest(parseLike(operand, false))],
  ['ilike', (operand) => toTest(parseLike(operand, true))],
  ['nilike', (operand) => toNegatedTest(parseLike(operand, true))],
  [
    'regexp',
    (operand) => toTest({ kind: 'pattern', pattern: parseOperandPattern(operand, regexpPattern) }),
  ],
  ['exists', (operand) => ({ negated: !parseSwitch(operand), test: { kind: 'exists' } })],
])

/**
 * Reads a predicate. Each member is a field name with a value or an object of operators, or `and` or `or` with a list
 * of predicates. A resource matches if all members and all operators hold. Errors: FilterError.
 */
export function parseWhere(given: Json, location: FilterLocation): Where {
  return new WhereReader().where(given, location, 0)
}

class WhereReader {
  #conditions = 0
  #patterns = 0

  where(given: Json, location: FilterLocation, depth: number): Where {
    if (!isJsonObject(given)) throw location.error('FILTER_MALFORMED', 'must be an object')
    const of = Object.entries(given).flatMap(([name, value]) =>
      name === 'and' || name === 'or'
        ? [this.#group(name, value, location.child(name), depth + 1)]
        : this.#field(name, value, location.child(name)),
    )
    const [only] = of
    return of.length === 1 && only !== undefined ? only : { kind: 'all', of }
  }

  #group(name: 'and' | 'or', given: Json, location: FilterLocation, depth: number): Where {
    if (depth > FILTER_LIMITS.depth) {
      const reason = `\`and\` and \`or\` may be nested at most ${FILTER_LIMITS.depth} levels deep`
      throw location.error('FILTER_TOO_LARGE', reason)
    }
    const list = requireList(given, location, FILTER_LIMITS.conditions)
    if (list.length === 0) throw location.error('FILTER_MALFORMED', 'the list is empty')
    const of = list.map((each, index) => this.where(each, location.child(index), depth))
    return { kind: name === 'and' ? 'all' : 'any', of }
  }

  #field(name: string, given: Json, location: FilterLocation): Condition[] {
    const path = requirePath(name, location)
    const type = typeAt(path, location)
    const operators: [string, Json][] = isJsonObject(given)
      ? Object.entries(given)
      : [['eq', given]]
    if (operators.length === 0) throw location.error('FILTER_MALFORMED', 'no operator is given')
    return operators.map(([operator, operand]) => {
      this.#conditions += 1
      location.requireMax(this.#conditions, FILTER_LIMITS.conditions, 'conditions')
      const at = isJsonObject(given) ? location.child(operator) : location
      const read = OPERATORS.get(operator)
      if (read === undefined) {
        const known = [...OPERATORS.keys()].join(', ')
        throw at.error('FILTER_UNKNOWN', `unknown operator; use ${known}`)
      }
      const condition = read({ given: operand, location: at, type })
      if (condition.test.kind === 'pattern') this.#patterns += 1
      at.requireMax(this.#patterns, FILTER_LIMITS.patterns, 'patterns')
      return { kind: 'condition', path, ...condition }
    })
  }
}

function typeAt(path: Path, location: FilterLocation): FieldType | null {
  if (location.typeOf === undefined) return null
  const type = location.typeOf(path)
  if (type !== undefined) return type
  throw location.error('FILTER_FIELD_UNKNOWN', `there is no field ${path.join('.')}`)
}

function wrong({ location }: Operand, expected: string): FilterError {
  return location.error('FILTER_VALUE_WRONG', `must be ${expected}`)
}

/**
 * Returns the values to compare with. Without a model, a text in bracket form that is also a JSON literal gives two
 * values: the literal and the text.
 */
function parseValues(operand: Operand): Scalar[] {
  const { given, location, type } = operand
  if (type !== null) {
    if (type.kind === 'compound') throw wrong(operand, type.expected)
    const value = type.read(given, location.isText)
    if (value !== undefined) return [withoutSign(value)]
    if (given === null || (location.isText && given === 'null')) return [null]
    throw wrong(operand, `${type.expected} or null`)
  }
  if (typeof given === 'object' && given !== null) {
    throw wrong(operand, 'a text, a number, true, false or null')
  }
  if (!location.isText || typeof given !== 'string') return [withoutSign(given)]
  const literal = parseLiteral(given)
  return literal === undefined ? [given] : [literal, given]
}

/** Returns the value of `text` if it is a JSON number, `true`, `false` or `null`, otherwise undefined. */
function parseLiteral(text: string): Exclude<Scalar, string> | undefined {
  if (text === 'null') return null
  if (text === 'true' || text === 'false') return text === 'true'
  const number = parseExactNumber(text)
  return number === undefined ? undefined : (withoutSign(number) as number)
}

/** Replaces -0 with 0, because canonical JSON has no negative zero. */
function withoutSign<Value extends Scalar>(value: Value): Value | 0 {
  return value === 0 ? 0 : value
}

function parseListed(operand: Operand): Scalar[] {
  const list = requireList(operand.given, operand.location, FILTER_LIMITS.values)
  const values = list.flatMap((given, index) =>
    parseValues({ ...operand, given, location: operand.location.child(index) }),
  )
  return [...new Set(values)]
}

function parseBound(operand: Operand, inclusive: boolean): Bound {
  const { given, location, type } = operand
  const isOrdered = type === null || type.kind === 'text' || type.kind === 'number'
  const read =
    type === null ? parseOrdered(given, location.isText) : type.read(given, location.isText)
  if (isOrdered && (typeof read === 'number' || typeof read === 'string')) {
    return { value: withoutSign(read), inclusive }
  }
  if (type === null && read === null && given !== null) {
    throw wrong(operand, 'a number that can be represented exactly')
  }
  if (isOrdered) throw wrong(operand, type === null ? 'a number or a text' : type.expected)
  throw location.error('FILTER_VALUE_WRONG', 'the type of the field has no order')
}

/**
 * Without a model, a text in bracket form that is a number is compared as a number. Returns null for a number that would
 * be compared as its neighbour.
 */
function parseOrdered(given: Json, fromText: boolean): Json {
  if (!fromText || typeof given !== 'string') return given
  return parseExactNumber(given) ?? (isNumberText(given) ? null : given)
}

function parseBetween(operand: Operand): Test {
  const list = requireList(operand.given, operand.location, 2)
  if (list.length !== 2) throw wrong(operand, 'a list of two values, the first and the last')
  const [from, to] = list.map((given, index) =>
    parseBound({ ...operand, given, location: operand.location.child(index) }, true),
  )
  if (typeof from?.value !== typeof to?.value) throw wrong(operand, 'two values of the same type')
  return { kind: 'range', from: from ?? null, to: to ?? null }
}

function parseLike(operand: Operand, caseless: boolean): Test {
  return {
    kind: 'pattern',
    pattern: parseOperandPattern(operand, (text) => likePattern(text, caseless)),
  }
}

function parseOperandPattern(operand: Operand, read: (text: string) => Pattern): Pattern {
  const { given, location, type } = operand
  if (typeof given !== 'string' || (type !== null && type.kind !== 'text')) {
    throw wrong(operand, type === null || type.kind === 'text' ? 'a pattern' : type.expected)
  }
  try {
    return read(given)
  } catch (error) {
    if (!(error instanceof PatternError)) throw error
    throw location.error('FILTER_PATTERN_WRONG', `the pattern is invalid: ${error.message}`)
  }
}

function parseSwitch(operand: Operand): boolean {
  const { given, location } = operand
  if (typeof given === 'boolean') return given
  if (location.isText && typeof given === 'string') {
    if (given === 'true' || given === '1') return true
    if (given === 'false' || given === '0') return false
  }
  throw wrong(operand, 'true or false')
}
