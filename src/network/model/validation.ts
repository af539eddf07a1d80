import { createContext, Script } from 'node:vm'
import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import type { Primitive } from '../language/model-parser.ts'
import {
  isA,
  type Model,
  type Property,
  relationshipText,
  type TypeDeclaration,
  targetOf,
  typeText,
} from './model.ts'

export type ProblemCode =
  | 'MISSING'
  | 'UNKNOWN_PROPERTY'
  | 'WRONG_TYPE'
  | 'NOT_IN_ENUM'
  | 'NOT_A_DATE'
  | 'NOT_AN_INTEGER'
  | 'NUMBER_TOO_LARGE'
  | 'OUT_OF_RANGE'
  | 'PATTERN_MISMATCH'
  | 'WRONG_CLASS'
  | 'ABSTRACT_CLASS'
  | 'WRONG_RELATIONSHIP'
  | 'ID_EMPTY'
  | 'ID_TOO_LONG'
  | 'ASSIGNED_BY_SERVER'
  | 'REFERENCE_MISSING'
  | 'REPEATED'

/** A problem of a value. */
export interface Problem {
  /** JSON pointer (RFC 6901) to it; empty for the whole value. */
  readonly path: string
  readonly code: ProblemCode
  readonly message: string
}

/** Maximum number of reported problems. */
export const PROBLEMS_MAX = 100

/** `path` with one more step. */
export function pointer(path: string, step: string | number): string {
  return `${path}/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`
}

const ISO =
  /^([+-]\d{6}|\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|[+-]\d\d:?\d\d)?)?$/i

/** The form of the result, for the years that have four digits. */
const STORED = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/**
 * Normalizes an ISO 8601 text to `2026-11-20T12:00:00.000Z`; null if it is none.
 * Without a zone it is UTC; a date alone is its midnight. Dates that the calendar does not have (30
 * February) are invalid.
 */
export function instantOf(text: string): string | null {
  // Most texts have that form already.
  if (STORED.test(text) && isSame(text)) return text
  const match = ISO.exec(text)
  if (match === null) return null
  const [, year, month, day, hour = '00', minute = '00', second = '00', fraction = '', zone] = match
  const local = new Date(
    `${year}-${month}-${day}T${hour}:${minute}:${second}.${fraction.slice(0, 3).padEnd(3, '0')}Z`,
  )
  // A Date beyond the end of a month rolls over.
  if (Number.isNaN(local.getTime()) || local.getUTCDate() !== Number(day)) return null
  const offset = offsetMs(zone)
  const instant = offset === null ? null : new Date(local.getTime() - offset)
  return instant === null || Number.isNaN(instant.getTime()) ? null : instant.toISOString()
}

/** Whether `text` is a date of the calendar: others do not round-trip. */
function isSame(text: string): boolean {
  const instant = new Date(text)
  return !Number.isNaN(instant.getTime()) && instant.toISOString() === text
}

function offsetMs(zone: string | undefined): number | null {
  if (zone === undefined || /^z$/i.test(zone)) return 0
  const hours = Number(zone.slice(1, 3))
  const minutes = Number(zone.slice(-2))
  if (hours > 23 || minutes > 59) return null
  return (zone.startsWith('-') ? -1 : 1) * (hours * 60 + minutes) * 60_000
}

/** How long one text may be compared with the regular expression of a model, milliseconds. */
const COMPARISON_MS = 100
/** Comparisons that ran out of time while the process hardly had the processor are repeated. */
const ATTEMPTS_MAX = 5
/** Texts that are compared at once are no longer, UTF-16 units. */
const SHORT_LENGTH = 256

/** The globals of the script below. Creating a context takes too long for each comparison. */
const compared = createContext({})
const COMPARISON = new Script('pattern.test(text)')

/**
 * Whether `pattern` of a model matches `text` of a request; null if that takes too long: backtracking may
 * take years, and it would block this thread.
 */
export function matchesPattern(pattern: RegExp, text: string): boolean | null {
  if (isQuick(pattern.source) && text.length <= SHORT_LENGTH) return pattern.test(text)
  Object.assign(compared, { pattern, text })
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const before = process.cpuUsage()
    try {
      // The timeout also interrupts backtracking.
      return COMPARISON.runInContext(compared, { timeout: COMPARISON_MS }) === true
    } catch {
      const { user, system } = process.cpuUsage(before)
      if (user + system > (COMPARISON_MS * 1_000) / 2) return null
    }
  }
  return null
}

/** Whether `source` repeats little and never a group, so that backtracking is cheap. */
function isQuick(source: string): boolean {
  return !/\)[*+?{]/.test(source) && (source.match(/[*+?{]/g)?.length ?? 0) <= 2
}

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

  /** Adds a problem of the current value, or of its member `step`. */
  #wrong(code: ProblemCode, message: string, step?: string): null {
    if (this.problems.length >= PROBLEMS_MAX) return null
    const steps = step === undefined ? this.#steps : [...this.#steps, step]
    this.problems.push({ path: steps.reduce(pointer, ''), code, message })
    return null
  }
}

/** Whether `value` is in `range`, whose bounds belong to it. */
export function inRange(value: number, range: Property['range']): boolean {
  if (range === null) return true
  return value >= (range.lower ?? value) && value <= (range.upper ?? value)
}
