import { isJsonObject, type Json } from '../base/json.ts'
import { FilterError } from './errors.ts'
import { type FieldType, numberIn } from './field-type.ts'
import {
  type Bound,
  type Condition,
  FILTER_LIMITS,
  type Path,
  type Scalar,
  type Test,
  type Where,
} from './filter.ts'
import { likePattern, PatternError, regexpPattern } from './pattern.ts'
import { listOf, type Place, pathOf, within } from './place.ts'

/** What an operator is given: its operand, where that stands, and what the model says of the field. */
interface Operand {
  readonly given: Json
  readonly place: Place
  /** Null without a model. */
  readonly type: FieldType | null
}

type Tested = Pick<Condition, 'negated' | 'test'>

const holds = (test: Test): Tested => ({ negated: false, test })
const fails = (test: Test): Tested => ({ negated: true, test })
const lower = (operand: Operand, inclusive: boolean): Tested =>
  holds({ kind: 'range', from: boundOf(operand, inclusive), to: null })
const upper = (operand: Operand, inclusive: boolean): Tested =>
  holds({ kind: 'range', from: null, to: boundOf(operand, inclusive) })

/** Every operator. Those with `n` before them are exactly the opposite of those without. */
const OPERATORS = new Map<string, (operand: Operand) => Tested>([
  ['eq', (operand) => holds({ kind: 'equals', values: valuesOf(operand) })],
  ['neq', (operand) => fails({ kind: 'equals', values: valuesOf(operand) })],
  ['gt', (operand) => lower(operand, false)],
  ['gte', (operand) => lower(operand, true)],
  ['lt', (operand) => upper(operand, false)],
  ['lte', (operand) => upper(operand, true)],
  ['between', (operand) => holds(betweenOf(operand))],
  ['inq', (operand) => holds({ kind: 'equals', values: listedOf(operand) })],
  ['nin', (operand) => fails({ kind: 'equals', values: listedOf(operand) })],
  ['like', (operand) => holds(likeOf(operand, false))],
  ['nlike', (operand) => fails(likeOf(operand, false))],
  ['ilike', (operand) => holds(likeOf(operand, true))],
  ['nilike', (operand) => fails(likeOf(operand, true))],
  ['regexp', (operand) => holds({ kind: 'pattern', pattern: patternOf(operand, regexpPattern) })],
  ['exists', (operand) => ({ negated: !switchOf(operand), test: { kind: 'exists' } })],
])

/**
 * The predicate that `given` spells: names of fields with a value or an object of operators, and
 * `and` and `or` with lists of such. All of an object's members must hold, all operators of a field too.
 * Errors: FilterError.
 */
export function whereOf(given: Json, place: Place): Where {
  return new WhereReader().where(given, place, 0)
}

class WhereReader {
  #conditions = 0
  #patterns = 0

  where(given: Json, place: Place, depth: number): Where {
    if (!isJsonObject(given))
      throw new FilterError('FILTER_MALFORMED', place.at, 'must be an object')
    const of = Object.entries(given).flatMap(([name, value]) =>
      name === 'and' || name === 'or'
        ? [this.#group(name, value, within(place, name), depth + 1)]
        : this.#field(name, value, within(place, name)),
    )
    const [only] = of
    return of.length === 1 && only !== undefined ? only : { kind: 'all', of }
  }

  #group(name: 'and' | 'or', given: Json, place: Place, depth: number): Where {
    if (depth > FILTER_LIMITS.depth) {
      throw new FilterError(
        'FILTER_TOO_LARGE',
        place.at,
        `and and or nest at most ${FILTER_LIMITS.depth} deep`,
      )
    }
    const list = listOf(given, place, FILTER_LIMITS.conditions)
    if (list.length === 0) throw new FilterError('FILTER_MALFORMED', place.at, 'the list is empty')
    const of = list.map((each, index) => this.where(each, within(place, index), depth))
    return { kind: name === 'and' ? 'all' : 'any', of }
  }

  #field(name: string, given: Json, place: Place): Condition[] {
    const path = pathOf(name, place)
    const type = typeAt(path, place)
    const operators: [string, Json][] = isJsonObject(given)
      ? Object.entries(given)
      : [['eq', given]]
    if (operators.length === 0)
      throw new FilterError('FILTER_MALFORMED', place.at, 'no operator is given')
    return operators.map(([operator, operand]) => {
      this.#count(place)
      const at = isJsonObject(given) ? within(place, operator) : place
      const read = OPERATORS.get(operator)
      if (read === undefined) {
        throw new FilterError(
          'FILTER_UNKNOWN',
          at.at,
          `known operators are ${[...OPERATORS.keys()].join(', ')}`,
        )
      }
      const condition = read({ given: operand, place: at, type })
      if (condition.test.kind === 'pattern') this.#countPattern(at)
      return { kind: 'condition', path, ...condition }
    })
  }

  #countPattern({ at }: Place): void {
    this.#patterns += 1
    if (this.#patterns <= FILTER_LIMITS.patterns) return
    throw new FilterError('FILTER_TOO_LARGE', at, `more than ${FILTER_LIMITS.patterns} patterns`)
  }

  #count({ at }: Place): void {
    this.#conditions += 1
    if (this.#conditions <= FILTER_LIMITS.conditions) return
    throw new FilterError(
      'FILTER_TOO_LARGE',
      at,
      `more than ${FILTER_LIMITS.conditions} conditions`,
    )
  }
}

function typeAt(path: Path, { typeOf, at }: Place): FieldType | null {
  if (typeOf === undefined) return null
  const type = typeOf(path)
  if (type !== undefined) return type
  throw new FilterError('FILTER_FIELD_UNKNOWN', at, `there is no field ${path.join('.')}`)
}

function wrong({ place }: Operand, expected: string): FilterError {
  return new FilterError('FILTER_VALUE_WRONG', place.at, `must be ${expected}`)
}

/** The values that the operand is equal to; more than one where a text stands for two. */
function valuesOf(operand: Operand): Scalar[] {
  const { given, place, type } = operand
  if (type !== null) {
    if (type.kind === 'compound') throw wrong(operand, type.expected)
    const value = type.read(given, place.fromText)
    if (value !== undefined) return [withoutSign(value)]
    if (given === null || (place.fromText && given === 'null')) return [null]
    throw wrong(operand, `${type.expected} or null`)
  }
  if (typeof given === 'object' && given !== null) {
    throw wrong(operand, 'a text, a number, true, false or null')
  }
  if (!place.fromText || typeof given !== 'string') return [withoutSign(given)]
  const literal = literalIn(given)
  return literal === undefined ? [given] : [literal, given]
}

/** What JSON reads in `text`, a text apart, or undefined. */
function literalIn(text: string): Exclude<Scalar, string> | undefined {
  if (text === 'null') return null
  if (text === 'true' || text === 'false') return text === 'true'
  const number = numberIn(text)
  return number === undefined ? undefined : (withoutSign(number) as number)
}

/** JSON in canonical form knows no negative zero. */
function withoutSign<Value extends Scalar>(value: Value): Value | 0 {
  return value === 0 ? 0 : value
}

function listedOf(operand: Operand): Scalar[] {
  const list = listOf(operand.given, operand.place, FILTER_LIMITS.values)
  const values = list.flatMap((given, index) =>
    valuesOf({ ...operand, given, place: within(operand.place, index) }),
  )
  return [...new Set(values)]
}

function boundOf(operand: Operand, inclusive: boolean): Bound {
  const { given, place, type } = operand
  const isOrdered = type === null || type.kind === 'text' || type.kind === 'number'
  const read = type === null ? orderedIn(given, place.fromText) : type.read(given, place.fromText)
  if (isOrdered && (typeof read === 'number' || typeof read === 'string')) {
    return { value: withoutSign(read), inclusive }
  }
  throw wrong(operand, isOrdered && type !== null ? type.expected : 'of a type that has an order')
}

/** Without a model: a number where it is one, else the text. */
function orderedIn(given: Json, fromText: boolean): Json {
  return fromText && typeof given === 'string' ? (numberIn(given) ?? given) : given
}

function betweenOf(operand: Operand): Test {
  const list = listOf(operand.given, operand.place, 2)
  if (list.length !== 2) throw wrong(operand, 'a list of two, the first and the last')
  const [from, to] = list.map((given, index) =>
    boundOf({ ...operand, given, place: within(operand.place, index) }, true),
  )
  if (typeof from?.value !== typeof to?.value) throw wrong(operand, 'two values of one type')
  return { kind: 'range', from: from ?? null, to: to ?? null }
}

function likeOf(operand: Operand, caseless: boolean): Test {
  return { kind: 'pattern', pattern: patternOf(operand, (text) => likePattern(text, caseless)) }
}

function patternOf(operand: Operand, read: (text: string) => ReturnType<typeof likePattern>) {
  const { given, place, type } = operand
  if (typeof given !== 'string' || (type !== null && type.kind !== 'text')) {
    throw wrong(operand, type === null || type.kind === 'text' ? 'a pattern' : type.expected)
  }
  try {
    return read(given)
  } catch (error) {
    if (!(error instanceof PatternError)) throw error
    throw new FilterError(
      'FILTER_PATTERN_WRONG',
      place.at,
      `the pattern cannot be used: ${error.message}`,
    )
  }
}

function switchOf(operand: Operand): boolean {
  const { given, place } = operand
  if (typeof given === 'boolean') return given
  if (place.fromText && typeof given === 'string') {
    if (given === 'true' || given === '1') return true
    if (given === 'false' || given === '0') return false
  }
  throw wrong(operand, 'true or false')
}
