import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { matches, parseExactNumber, type Test, valuesAt, type Where } from '../../filter/index.ts'
import type { Operand, QueryCondition } from '../language/query-parser.ts'
import {
  formatRelationship,
  type Model,
  type Property,
  parseRelationship,
  propertyAt,
  type TypeDeclaration,
} from '../model/model.ts'
import { normalizeInstant } from '../model/validation.ts'

export type QueryValue = string | number | boolean | null

/** The type of a parameter: the property with which the parameter is compared, or `count` for LIMIT and SKIP. */
export type ParameterType = Property | 'count'

/** Returns the name of a parameter's type for messages. */
export function formatParameterType(type: ParameterType): string {
  if (type === 'count') return 'Integer'
  return type.relationship ? `relationship to ${type.type?.name}` : (type.primitive ?? 'String')
}

/** Returns the text of a parameter as a value of `type`, or undefined if the text is invalid. */
export function parseParameter(
  text: string,
  type: ParameterType,
  model: Model,
): QueryValue | undefined {
  if (type === 'count') return /^\d{1,15}$/.test(text) ? Number(text) : undefined
  switch (type.primitive) {
    case 'String':
      return text
    case 'Boolean':
      return text === 'true' || text === 'false' ? text === 'true' : undefined
    case 'DateTime':
      return normalizeInstant(text) ?? undefined
    case 'Double':
      return parseExactNumber(text)
    case 'Integer':
    case 'Long': {
      const value = parseExactNumber(text)
      return Number.isSafeInteger(value) ? value : undefined
    }
    case null:
      return canonical(text, type, model)
  }
}

/** Returns `text` in its stored form, with normalized relationships and dates, or undefined if `text` is invalid. */
export function canonical(text: string, property: Property, model: Model): string | undefined {
  if (property.primitive === 'DateTime') return normalizeInstant(text) ?? undefined
  const { type, relationship } = property
  if (type === null || !relationship) return text
  const target = parseRelationship(text, type, model)
  return typeof target === 'string' ? undefined : formatRelationship(target)
}

/** The parameters of a query as strings. Each comparison converts them to the type of its property. */
export type Arguments = ReadonlyMap<string, readonly string[]>

/** A condition of a query with the values of its parameters. */
export interface Predicate {
  /** Evaluated by the store. If `exact` is false, `where` matches too much, so `holds` must also check each match. */
  readonly where: Where
  readonly exact: boolean
  holds(resource: JsonObject): boolean
}

const ALWAYS: Where = { kind: 'all', of: [] }
const NEVER: Predicate = exactly({
  ...{ kind: 'condition', path: ['id'], negated: false },
  test: { kind: 'equals', values: [] },
})

/** Returns the predicate of a checked condition for instances of `type`. */
export function toPredicate(
  condition: QueryCondition | null,
  type: TypeDeclaration,
  model: Model,
  parameters: Arguments,
): Predicate {
  if (condition === null) return { where: ALWAYS, exact: true, holds: () => true }
  switch (condition.kind) {
    case 'and':
    case 'or': {
      const parts = condition.parts.map((part) => toPredicate(part, type, model, parameters))
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
      return exactly(toComparison(condition, type, model, parameters))
    case 'contains':
      return toContains(condition, type, model, parameters)
  }
}

function exactly(where: Where): Predicate {
  return { where, exact: true, holds: (resource) => matches(where, resource) }
}

const MIRRORED = { '==': '==', '!=': '!=', '<': '>', '>': '<', '<=': '>=', '>=': '<=' } as const

function toComparison(
  { operator, left, right }: Extract<QueryCondition, { kind: 'compare' }>,
  type: TypeDeclaration,
  model: Model,
  parameters: Arguments,
): Where {
  const isForward = left.kind === 'path'
  const [side, operand] = isForward ? [left, right] : [right, left]
  const path = side.kind === 'path' ? side.path : []
  const [value, ...more] = operandValues(operand, path, type, model, parameters)
  const normalized = isForward ? operator : MIRRORED[operator]
  // A parameter can be a list of values. No property equals a list, so `!=` is true and all other operators are false.
  const isSingle = value !== undefined && more.length === 0
  const test: Test = isSingle ? toTest(normalized, value) : { kind: 'equals', values: [] }
  return { kind: 'condition', path, negated: normalized === '!=', test }
}

function toTest(operator: keyof typeof MIRRORED, value: QueryValue): Test {
  const isEquality = operator === '==' || operator === '!='
  // null and booleans have no order: <, <=, > and >= match nothing.
  if (isEquality || value === null || typeof value === 'boolean') {
    return { kind: 'equals', values: isEquality ? [value] : [] }
  }
  const bound = { value, inclusive: operator.endsWith('=') }
  const isLower = operator.startsWith('>')
  return { kind: 'range', from: isLower ? bound : null, to: isLower ? null : bound }
}

function toContains(
  { path, values, where }: Extract<QueryCondition, { kind: 'contains' }>,
  type: TypeDeclaration,
  model: Model,
  parameters: Arguments,
): Predicate {
  const property = propertyAt(model, type, path)
  // CONTAINS matches only arrays, and a path cannot continue after a relationship.
  if (property?.array !== true || (where !== null && property.relationship)) return NEVER
  if (where === null || property.type === null) {
    const of = values
      .flatMap((each) => operandValues(each, path, type, model, parameters))
      .map((value): Where => {
        const test: Test = { kind: 'equals', values: [value] }
        return { kind: 'condition', path, negated: false, test }
      })
    return exactly({ kind: 'all', of })
  }
  // One element must match all parts of the condition. The store can only check that each part matches some element,
  // so the condition is checked by `holds` alone.
  const inner = toPredicate(where, property.type, model, parameters)
  const holds = (resource: JsonObject) =>
    valuesAt(resource, path)
      .flat()
      .some((each) => isJsonObject(each) && inner.holds(each))
  return { where: ALWAYS, exact: false, holds }
}

/** Returns the values of an operand, converted to the type of the property at `path`. A list has several values. */
function operandValues(
  operand: Operand,
  path: readonly string[],
  type: TypeDeclaration,
  model: Model,
  parameters: Arguments,
): QueryValue[] {
  const property = propertyAt(model, type, path)
  switch (operand.kind) {
    case 'path':
      return []
    case 'parameter': {
      const texts = parameters.get(operand.name) ?? []
      // A string that cannot be converted stays a string. It equals no value of the property.
      return texts.map((text) => (property && parseParameter(text, property, model)) ?? text)
    }
    case 'value': {
      const { value } = operand
      if (typeof value !== 'string' || property === null) return [value]
      return [canonical(value, property, model) ?? value]
    }
  }
}
