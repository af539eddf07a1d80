import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { matches, numberIn, reached, type Test, type Where } from '../../filter/index.ts'
import type { Condition, Operand } from '../language/query-parser.ts'
import {
  type Model,
  type Property,
  propertyAt,
  relationshipText,
  type TypeDeclaration,
  targetOf,
} from '../model/model.ts'
import { instantOf } from '../model/validation.ts'

/** A value that properties are compared with. */
export type QueryValue = string | number | boolean | null

/** The type of a parameter: that of the property it is compared with, or a count. */
export type ParameterType = Property | 'count'

/** The name of a parameter's type, for people. */
export function parameterTypeText(type: ParameterType): string {
  if (type === 'count') return 'Integer'
  return type.relationship ? `relationship to ${type.type?.name}` : (type.primitive ?? 'String')
}

/** The value of a parameter's text `given`; undefined if it is invalid. */
export function parameterValue(
  given: string,
  type: ParameterType,
  model: Model,
): QueryValue | undefined {
  if (type === 'count') return /^\d{1,15}$/.test(given) ? Number(given) : undefined
  switch (type.primitive) {
    case 'String':
      return given
    case 'Boolean':
      return given === 'true' || given === 'false' ? given === 'true' : undefined
    case 'DateTime':
      return instantOf(given) ?? undefined
    case 'Double':
      return numberIn(given)
    case 'Integer':
    case 'Long': {
      const value = numberIn(given)
      return Number.isSafeInteger(value) ? value : undefined
    }
    case null:
      return canonical(given, type, model)
  }
}

/** The stored form of a text: relationships and instants are normalized. */
export function canonical(text: string, property: Property, model: Model): string | undefined {
  if (property.primitive === 'DateTime') return instantOf(text) ?? undefined
  const { type, relationship } = property
  if (type === null || !relationship) return text
  const target = targetOf(text, type, model)
  return typeof target === 'string' ? undefined : relationshipText(target)
}

/** Values of the parameters of a query as texts, from which each comparison takes its type's value. */
export type Arguments = ReadonlyMap<string, readonly string[]>

/** A condition of a query with its arguments. */
export interface Predicate {
  /** The part that a store evaluates; a match may still fail `holds`, unless `exact`. */
  readonly where: Where
  readonly exact: boolean
  /** Whether the condition holds. */
  holds(resource: JsonObject): boolean
}

const ALWAYS: Where = { kind: 'all', of: [] }
const NEVER: Predicate = exactly({
  ...{ kind: 'condition', path: ['id'], negated: false },
  test: { kind: 'equals', values: [] },
})

/** The predicate of `condition`, which was checked, over instances of `type`. */
export function predicateOf(
  condition: Condition | null,
  type: TypeDeclaration,
  model: Model,
  given: Arguments,
): Predicate {
  if (condition === null) return { where: ALWAYS, exact: true, holds: () => true }
  switch (condition.kind) {
    case 'and':
    case 'or': {
      const parts = condition.parts.map((part) => predicateOf(part, type, model, given))
      const isAnd = condition.kind === 'and'
      return {
        where: { kind: isAnd ? 'all' : 'any', of: parts.map(({ where }) => where) },
        exact: parts.every(({ exact }) => exact),
        holds: (resource) =>
          isAnd
            ? parts.every((part) => part.holds(resource))
            : parts.some((part) => part.holds(resource)),
      }
    }
    case 'compare':
      return exactly(comparisonOf(condition, type, model, given))
    case 'contains':
      return containsOf(condition, type, model, given)
  }
}

function exactly(where: Where): Predicate {
  return { where, exact: true, holds: (resource) => matches(where, resource) }
}

const MIRRORED = { '==': '==', '!=': '!=', '<': '>', '>': '<', '<=': '>=', '>=': '<=' } as const

function comparisonOf(
  { operator, left, right }: Extract<Condition, { kind: 'compare' }>,
  type: TypeDeclaration,
  model: Model,
  given: Arguments,
): Where {
  const isForward = left.kind === 'path'
  const [side, other] = isForward ? [left, right] : [right, left]
  const path = side.kind === 'path' ? side.path : []
  const [value, ...others] = operandValues(other, path, type, model, given)
  const asked = isForward ? operator : MIRRORED[operator]
  // A list is no value that anything equals.
  const isOne = value !== undefined && others.length === 0
  const test: Test = isOne ? testOf(asked, value) : { kind: 'equals', values: [] }
  return { kind: 'condition', path, negated: asked === '!=', test }
}

function testOf(operator: keyof typeof MIRRORED, value: QueryValue): Test {
  const isEquality = operator === '==' || operator === '!='
  // No order has a place for null and booleans: nothing is less than they are.
  if (isEquality || value === null || typeof value === 'boolean') {
    return { kind: 'equals', values: isEquality ? [value] : [] }
  }
  const bound = { value, inclusive: operator.endsWith('=') }
  const isLower = operator.startsWith('>')
  return { kind: 'range', from: isLower ? bound : null, to: isLower ? null : bound }
}

function containsOf(
  { path, values, where }: Extract<Condition, { kind: 'contains' }>,
  type: TypeDeclaration,
  model: Model,
  given: Arguments,
): Predicate {
  const property = propertyAt(model, type, path)
  // Nothing lies behind a relationship, and nothing but an array contains something.
  if (property?.array !== true || (where !== null && property.relationship)) return NEVER
  if (where === null || property.type === null) {
    const of = values
      .flatMap((each) => operandValues(each, path, type, model, given))
      .map((value): Where => {
        const test: Test = { kind: 'equals', values: [value] }
        return { kind: 'condition', path, negated: false, test }
      })
    return exactly({ kind: 'all', of })
  }
  // One element must fulfil all of it; a path can only say that some element fulfils each part.
  const inner = predicateOf(where, property.type, model, given)
  const holds = (resource: JsonObject) =>
    reached(resource, path)
      .flat()
      .some((each) => isJsonObject(each) && inner.holds(each))
  return { where: ALWAYS, exact: false, holds }
}

/** The values of an operand that is compared with the property at `path`: several of a list. */
function operandValues(
  operand: Operand,
  path: readonly string[],
  type: TypeDeclaration,
  model: Model,
  given: Arguments,
): QueryValue[] {
  const property = propertyAt(model, type, path)
  switch (operand.kind) {
    case 'path':
      return []
    case 'parameter': {
      const texts = given.get(operand.name) ?? []
      // One that is no value of the property equals none of them.
      return texts.map((text) => (property && parameterValue(text, property, model)) ?? text)
    }
    case 'value': {
      const { value } = operand
      if (typeof value !== 'string' || property === null) return [value]
      return [canonical(value, property, model) ?? value]
    }
  }
}
