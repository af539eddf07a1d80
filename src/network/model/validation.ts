import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import type { Primitive } from '../language/model-file.ts'
import { instantOf } from './instant.ts'
import { isA, type Model, type Property, type TypeDeclaration, typeText } from './model.ts'
import { PROBLEMS_MAX, type Problem, type ProblemCode, pointer } from './problem.ts'
import { inRange } from './property-meta.ts'
import { relationshipText, targetOf } from './relationship.ts'
import { matchesPattern } from './text-pattern.ts'

/** How strictly instances are judged. */
export interface Strictness {
  /** Whether 1.5 is refused for an Integer or a Long. */
  readonly strictNumbers: boolean
}

/** An instance in the form in which it is kept, or everything that is wrong with it. */
export type Checked =
  | { readonly resource: JsonObject; readonly problems: null }
  | { readonly resource: null; readonly problems: readonly Problem[] }

/**
 * Judges `value` as an instance of `type`, a concrete one, and puts it into the form in which it is
 * kept and sent: Composer's JSON, with `$class` everywhere, defaults filled in, null members left
 * out, relationships and moments in their canonical texts.
 *
 * All problems are told, PROBLEMS_MAX at most, each with a JSON pointer.
 */
export function checkInstance(
  model: Model,
  type: TypeDeclaration,
  value: JsonObject,
  strictness: Strictness,
): Checked {
  const checker = new InstanceChecker(model, strictness)
  const resource = checker.instance(value, type)
  const { problems } = checker
  if (problems.length === 0 && resource !== null) return { resource, problems: null }
  return { resource: null, problems }
}

class InstanceChecker {
  readonly problems: Problem[] = []
  /** Where it is in the value: most have no problem, and need no pointer. */
  readonly #steps: (string | number)[] = []
  readonly #model: Model
  readonly #strictNumbers: boolean

  constructor(model: Model, { strictNumbers }: Strictness) {
    this.#model = model
    this.#strictNumbers = strictNumbers
  }

  instance(value: JsonObject, declared: TypeDeclaration): JsonObject | null {
    const type = this.#classOf(value, declared)
    if (type === null) return null
    const kept: JsonObject = { $class: type.qualifiedName }
    for (const [name, property] of type.properties) {
      const member = Object.hasOwn(value, name) ? (value[name] ?? null) : null
      this.#steps.push(name)
      const checked = this.#member(member, property, type)
      this.#steps.pop()
      if (checked !== null) kept[name] = checked
    }
    for (const name of Object.keys(value)) {
      if (name === '$class' || type.properties.has(name)) continue
      this.#wrong('UNKNOWN_PROPERTY', `${type.name} has no property ${name}`, name)
    }
    return kept
  }

  #classOf({ $class: named }: JsonObject, declared: TypeDeclaration): TypeDeclaration | null {
    const name = named === undefined ? declared.qualifiedName : named
    const type = typeof name === 'string' ? this.#model.type(name) : null
    if (type === null || !isA(type, declared)) {
      const what = `${declared.qualifiedName} or a type that extends it`
      return this.#wrong('WRONG_CLASS', `$class must be ${what}`, '$class')
    }
    if (!type.abstract) return type
    const code = named === undefined ? 'MISSING' : 'ABSTRACT_CLASS'
    const message = `${type.name} is abstract: $class must name a type that extends it`
    return this.#wrong(code, message, '$class')
  }

  #member(value: Json, property: Property, owner: TypeDeclaration): Json {
    if (value === null) {
      if (property.default !== null) return property.default
      if (property.optional) return null
      // As in Composer's REST server, which cannot tell a missing array from an empty one.
      if (property.array) return []
      return this.#wrong('MISSING', `${owner.name} needs ${property.name}`)
    }
    if (!property.array) {
      const checked = this.#value(value, property)
      if (checked === '' && owner.identifier === property.name) {
        return this.#wrong('ID_EMPTY', `the id of ${owner.name} is empty`)
      }
      return checked
    }
    if (!Array.isArray(value)) {
      return this.#wrong('WRONG_TYPE', `must be an array, ${typeText(property)}`)
    }
    const kept: Json[] = []
    for (const [index, element] of value.entries()) {
      if (this.problems.length >= PROBLEMS_MAX) return null
      this.#steps.push(index)
      kept.push(this.#value(element, property))
      this.#steps.pop()
    }
    return kept
  }

  #value(value: Json, property: Property): Json {
    const { type, relationship, primitive } = property
    if (primitive !== null) return this.#primitive(value, primitive, property)
    if (type === null) return null
    if (relationship) return this.#relationship(value, type)
    if (type.kind === 'enum') {
      if (typeof value === 'string' && type.values.has(value)) return value
      const known = [...type.values].slice(0, 20).join(', ')
      return this.#wrong('NOT_IN_ENUM', `must be a value of ${type.name}: ${known}`)
    }
    return isJsonObject(value) ? this.instance(value, type) : this.#wrongType(property)
  }

  #relationship(value: Json, type: TypeDeclaration): Json {
    const target =
      typeof value === 'string'
        ? targetOf(value, type, this.#model)
        : 'a relationship is a text, resource:<type>#<id>'
    if (typeof target === 'string') return this.#wrong('WRONG_RELATIONSHIP', target)
    return relationshipText(target)
  }

  #primitive(value: Json, primitive: Primitive, property: Property): Json {
    switch (primitive) {
      case 'Boolean':
        return typeof value === 'boolean' ? value : this.#wrongType(property)
      case 'String':
        if (typeof value !== 'string') return this.#wrongType(property)
        return this.#text(value, property)
      case 'DateTime': {
        if (typeof value !== 'string') return this.#wrongType(property)
        const instant = instantOf(value)
        return instant ?? this.#wrong('NOT_A_DATE', 'must be a date and time, ISO 8601')
      }
      default:
        if (typeof value !== 'number') return this.#wrongType(property)
        return this.#number(value, primitive, property)
    }
  }

  #text(value: string, { regex }: Property): Json {
    const matches = regex === null || matchesPattern(regex, value)
    if (matches === true) return value
    const message = matches === null ? 'takes too long to be compared with' : 'must match'
    return this.#wrong('PATTERN_MISMATCH', `${message} ${regex}`)
  }

  #number(value: number, primitive: Primitive, { range }: Property): Json {
    if (!Number.isFinite(value)) {
      return this.#wrong('NUMBER_TOO_LARGE', 'the number is too large')
    }
    if (primitive !== 'Double') {
      if (Math.abs(value) > Number.MAX_SAFE_INTEGER) {
        const message = 'whole numbers are kept from -(2^53-1) to 2^53-1'
        return this.#wrong('NUMBER_TOO_LARGE', message)
      }
      if (this.#strictNumbers && !Number.isInteger(value)) {
        return this.#wrong('NOT_AN_INTEGER', `must be a whole number, ${primitive}`)
      }
    }
    if (inRange(value, range)) return value
    const bounds = `[${range?.lower ?? ''},${range?.upper ?? ''}]`
    return this.#wrong('OUT_OF_RANGE', `must be in the range ${bounds}`)
  }

  #wrongType(property: Property): null {
    const article = /^[AEIOU]/.test(property.primitive ?? '') ? 'an' : 'a'
    const type = typeText({ ...property, array: false })
    return this.#wrong('WRONG_TYPE', `must be ${article} ${type}`)
  }

  /** `step` is the member that it is about, where that is not where it stands. */
  #wrong(code: ProblemCode, message: string, step?: string): null {
    if (this.problems.length >= PROBLEMS_MAX) return null
    const steps = step === undefined ? this.#steps : [...this.#steps, step]
    this.problems.push({ path: steps.reduce(pointer, ''), code, message })
    return null
  }
}
