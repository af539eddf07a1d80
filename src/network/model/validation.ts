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
  const resource = checker.instance(value, type, '')
  const { problems } = checker
  if (problems.length === 0 && resource !== null) return { resource, problems: null }
  return { resource: null, problems }
}

class InstanceChecker {
  readonly problems: Problem[] = []
  readonly #model: Model
  readonly #strictNumbers: boolean

  constructor(model: Model, { strictNumbers }: Strictness) {
    this.#model = model
    this.#strictNumbers = strictNumbers
  }

  instance(value: JsonObject, declared: TypeDeclaration, path: string): JsonObject | null {
    const type = this.#classOf(value, declared, path)
    if (type === null) return null
    const kept: JsonObject = { $class: type.qualifiedName }
    for (const [name, property] of type.properties) {
      const member = Object.hasOwn(value, name) ? (value[name] ?? null) : null
      const checked = this.#member(member, property, type, pointer(path, name))
      if (checked !== null) kept[name] = checked
    }
    for (const name of Object.keys(value)) {
      if (name === '$class' || type.properties.has(name)) continue
      this.#wrong(pointer(path, name), 'UNKNOWN_PROPERTY', `${type.name} has no property ${name}`)
    }
    return kept
  }

  #classOf(
    { $class: named }: JsonObject,
    declared: TypeDeclaration,
    path: string,
  ): TypeDeclaration | null {
    const at = pointer(path, '$class')
    const name = named === undefined ? declared.qualifiedName : named
    const type = typeof name === 'string' ? this.#model.type(name) : null
    if (type === null || !isA(type, declared)) {
      const what = `${declared.qualifiedName} or a type that extends it`
      return this.#wrong(at, 'WRONG_CLASS', `$class must be ${what}`)
    }
    if (!type.abstract) return type
    const code = named === undefined ? 'MISSING' : 'ABSTRACT_CLASS'
    return this.#wrong(
      at,
      code,
      `${type.name} is abstract: $class must name a type that extends it`,
    )
  }

  #member(value: Json, property: Property, owner: TypeDeclaration, path: string): Json {
    if (value === null) {
      if (property.default !== null) return property.default
      if (property.optional) return null
      return this.#wrong(path, 'MISSING', `${owner.name} needs ${property.name}`)
    }
    if (!property.array) {
      const checked = this.#value(value, property, path)
      if (checked === '' && owner.identifier === property.name) {
        return this.#wrong(path, 'ID_EMPTY', `the id of ${owner.name} is empty`)
      }
      return checked
    }
    if (!Array.isArray(value)) return this.#wrongType(path, property)
    const kept: Json[] = []
    for (const [index, element] of value.entries()) {
      if (this.problems.length >= PROBLEMS_MAX) return null
      kept.push(this.#value(element, property, pointer(path, index)))
    }
    return kept
  }

  #value(value: Json, property: Property, path: string): Json {
    const { type, relationship, primitive } = property
    if (primitive !== null) return this.#primitive(value, primitive, property, path)
    if (type === null) return null
    if (relationship) return this.#relationship(value, type, path)
    if (type.kind === 'enum') {
      if (typeof value === 'string' && type.values.has(value)) return value
      const known = [...type.values].slice(0, 20).join(', ')
      return this.#wrong(path, 'NOT_IN_ENUM', `must be a value of ${type.name}: ${known}`)
    }
    return isJsonObject(value) ? this.instance(value, type, path) : this.#wrongType(path, property)
  }

  #relationship(value: Json, type: TypeDeclaration, path: string): Json {
    const target =
      typeof value === 'string'
        ? targetOf(value, type, this.#model)
        : 'a relationship is a text, resource:<type>#<id>'
    if (typeof target === 'string') return this.#wrong(path, 'WRONG_RELATIONSHIP', target)
    return relationshipText(target)
  }

  #primitive(value: Json, primitive: Primitive, property: Property, path: string): Json {
    switch (primitive) {
      case 'Boolean':
        return typeof value === 'boolean' ? value : this.#wrongType(path, property)
      case 'String':
        if (typeof value !== 'string') return this.#wrongType(path, property)
        return this.#text(value, property, path)
      case 'DateTime': {
        if (typeof value !== 'string') return this.#wrongType(path, property)
        const instant = instantOf(value)
        return instant ?? this.#wrong(path, 'NOT_A_DATE', 'must be a date and time, ISO 8601')
      }
      default:
        if (typeof value !== 'number') return this.#wrongType(path, property)
        return this.#number(value, primitive, property, path)
    }
  }

  #text(value: string, { regex }: Property, path: string): Json {
    const matches = regex === null || matchesPattern(regex, value)
    if (matches === true) return value
    const message = matches === null ? 'takes too long to be compared with' : 'must match'
    return this.#wrong(path, 'PATTERN_MISMATCH', `${message} ${regex}`)
  }

  #number(value: number, primitive: Primitive, { range }: Property, path: string): Json {
    if (!Number.isFinite(value)) {
      return this.#wrong(path, 'NUMBER_TOO_LARGE', 'the number is too large')
    }
    if (primitive !== 'Double') {
      if (Math.abs(value) > Number.MAX_SAFE_INTEGER) {
        const message = 'whole numbers are kept from -(2^53-1) to 2^53-1'
        return this.#wrong(path, 'NUMBER_TOO_LARGE', message)
      }
      if (this.#strictNumbers && !Number.isInteger(value)) {
        return this.#wrong(path, 'NOT_AN_INTEGER', `must be a whole number, ${primitive}`)
      }
    }
    if (inRange(value, range)) return value
    const bounds = `[${range?.lower ?? ''},${range?.upper ?? ''}]`
    return this.#wrong(path, 'OUT_OF_RANGE', `must be in the range ${bounds}`)
  }

  #wrongType(path: string, property: Property): null {
    const article = /^[AEIOU]/.test(property.primitive ?? '') ? 'an' : 'a'
    return this.#wrong(
      path,
      'WRONG_TYPE',
      `must be ${article} ${typeText({ ...property, array: false })}`,
    )
  }

  #wrong(path: string, code: ProblemCode, message: string): null {
    if (this.problems.length < PROBLEMS_MAX) this.problems.push({ path, code, message })
    return null
  }
}
