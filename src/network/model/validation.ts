import { createContext, Script } from 'node:vm'
import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import type { Primitive } from '../language/model-parser.ts'
import {
  formatRelationship,
  formatType,
  isA,
  type Model,
  type Property,
  parseRelationship,
  type TypeDeclaration,
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

/** An error in a value. */
export interface Problem {
  /** JSON pointer (RFC 6901) to the invalid part; empty for the whole value. */
  readonly path: string
  readonly code: ProblemCode
  readonly message: string
}

/** Maximum number of reported problems. */
export const PROBLEMS_MAX = 100

/** Returns the JSON pointer `path` extended by `step`. */
export function pointer(path: string, step: string | number): string {
  return `${path}/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`
}

const ISO =
  /^([+-]\d{6}|\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|[+-]\d\d:?\d\d)?)?$/i

/** A normalized instant whose year has four digits. */
const NORMALIZED = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/**
 * Returns an ISO 8601 date or time in the form `2026-11-20T12:00:00.000Z`, or null if `text` is invalid, for example
 * 30 February. The default time is midnight; the default zone is UTC. Years have four digits, because dates are compared
 * as texts, and `+012026` would be less than `2026`.
 */
export function normalizeInstant(text: string): string | null {
  // Fast path, because most dates are already normalized.
  if (NORMALIZED.test(text) && roundTrips(text)) return text
  const match = ISO.exec(text)
  if (match === null) return null
  const [, year, month, day, hour = '00', minute = '00', second = '00', fraction = '', zone] = match
  const local = new Date(
    `${year}-${month}-${day}T${hour}:${minute}:${second}.${fraction.slice(0, 3).padEnd(3, '0')}Z`,
  )
  // Compares the day, because `Date` turns a date that does not exist (30 February) into another date (2 March).
  if (Number.isNaN(local.getTime()) || local.getUTCDate() !== Number(day)) return null
  const offset = offsetMs(zone)
  const instant = offset === null ? null : new Date(local.getTime() - offset)
  if (instant === null || Number.isNaN(instant.getTime())) return null
  const normalized = instant.toISOString()
  return NORMALIZED.test(normalized) ? normalized : null
}

/** Whether the date in `text` exists. `Date` turns a nonexistent date into another date. */
function roundTrips(text: string): boolean {
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

/** Maximum milliseconds to match a string with a regular expression of a model. */
const COMPARISON_MS = 100
/** Maximum attempts per match. A match that timed out while the process got little CPU time is tried again. */
const ATTEMPTS_MAX = 5
/** Maximum UTF-16 units of a string that may be matched without a timeout. */
const SHORT_LENGTH_MAX = 256

/** The globals of COMPARISON. All matches share one context, because creating a context takes too long. */
const globals = createContext({})
const COMPARISON = new Script('pattern.test(text)')

/**
 * Whether `pattern` of a model matches `text` of a request; null if the match takes too long. Without a time limit,
 * catastrophic backtracking would block this thread.
 */
export function matchesPattern(pattern: RegExp, text: string): boolean | null {
  if (isQuick(pattern.source) && text.length <= SHORT_LENGTH_MAX) return pattern.test(text)
  Object.assign(globals, { pattern, text })
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const before = process.cpuUsage()
    try {
      // Unlike a timer, the timeout of `vm` interrupts backtracking.
      return COMPARISON.runInContext(globals, { timeout: COMPARISON_MS }) === true
    } catch {
      const { user, system } = process.cpuUsage(before)
      if (user + system > (COMPARISON_MS * 1_000) / 2) return null
    }
  }
  return null
}

/** Whether `source` has at most two quantifiers and no quantified groups, so that backtracking is cheap. */
function isQuick(source: string): boolean {
  return !/\)[*+?{]/.test(source) && (source.match(/[*+?{]/g)?.length ?? 0) <= 2
}

/** Maximum milliseconds to match all strings of a request with regular expressions. */
const MATCHING_MS_MAX = 2_000

export interface Strictness {
  /** Whether the values of Integer and Long properties must be integers. If not, 1.5 becomes 1. */
  readonly strictNumbers: boolean
  /** The time spent on regular expressions so far, for all instances of a request. Absent for a single instance. */
  readonly matching?: { ms: number }
  /** Whether the instance got its defaults when it was made, so that a missing required property is an error. */
  readonly hasDefaults?: boolean
}

/** A normalized instance, or all problems of an invalid instance. */
export type CheckedInstance =
  | { readonly resource: JsonObject; readonly problems: null }
  | { readonly resource: null; readonly problems: readonly Problem[] }

/**
 * Validates `value` as an instance of the concrete type `type` and normalizes it to the form that is stored and
 * sent: Composer's JSON, with `$class` in every object, with defaults, without null members, with canonical
 * relationships and dates.
 *
 * Reports all problems up to PROBLEMS_MAX, each with a JSON pointer.
 */
export function checkInstance(
  model: Model,
  type: TypeDeclaration,
  value: JsonObject,
  strictness: Strictness,
): CheckedInstance {
  const checker = new InstanceChecker(model, strictness)
  const resource = checker.instance(value, type)
  const { problems } = checker
  if (problems.length === 0 && resource !== null) return { resource, problems: null }
  return { resource: null, problems }
}

class InstanceChecker {
  readonly problems: Problem[] = []
  /** The path of the current value. It becomes a JSON pointer only if there is a problem. */
  readonly #steps: (string | number)[] = []
  readonly #model: Model
  readonly #strictNumbers: boolean
  readonly #matching: { ms: number }
  readonly #hasDefaults: boolean

  constructor(
    model: Model,
    { strictNumbers, matching = { ms: 0 }, hasDefaults = false }: Strictness,
  ) {
    this.#model = model
    this.#strictNumbers = strictNumbers
    this.#matching = matching
    this.#hasDefaults = hasDefaults
  }

  instance(value: JsonObject, declared: TypeDeclaration): JsonObject | null {
    const type = this.#concreteType(value, declared)
    if (type === null) return null
    const normalized: JsonObject = { $class: type.qualifiedName }
    for (const [name, property] of type.properties) {
      const member = Object.hasOwn(value, name) ? (value[name] ?? null) : null
      this.#steps.push(name)
      const checked = this.#member(member, property, type)
      this.#steps.pop()
      if (checked !== null) normalized[name] = checked
    }
    for (const name of Object.keys(value)) {
      if (name === '$class' || type.properties.has(name)) continue
      this.#wrong('UNKNOWN_PROPERTY', `${type.name} has no property ${name}`, name)
    }
    return normalized
  }

  #concreteType({ $class: named }: JsonObject, declared: TypeDeclaration): TypeDeclaration | null {
    const name = named === undefined ? declared.qualifiedName : named
    const type = typeof name === 'string' ? this.#model.type(name) : null
    if (type === null || !isA(type, declared)) {
      const message = `$class must be ${declared.qualifiedName} or a type that extends it`
      return this.#wrong('WRONG_CLASS', message, '$class')
    }
    if (!type.abstract) return type
    const code = named === undefined ? 'MISSING' : 'ABSTRACT_CLASS'
    const message = `${type.name} is abstract: $class must name a type that extends it`
    return this.#wrong(code, message, '$class')
  }

  #member(value: Json, property: Property, owner: TypeDeclaration): Json {
    if (value === null) {
      const isFilled = property.optional || !this.#hasDefaults
      if (property.default !== null && isFilled) return property.default
      if (property.optional) return null
      // Like Composer's REST server, treats a missing array as an empty array.
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
      return this.#wrong('WRONG_TYPE', `must be an array, ${formatType(property)}`)
    }
    const elements: Json[] = []
    for (const [index, element] of value.entries()) {
      if (this.problems.length >= PROBLEMS_MAX) return null
      this.#steps.push(index)
      elements.push(this.#value(element, property))
      this.#steps.pop()
    }
    return elements
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
        ? parseRelationship(value, type, this.#model)
        : 'a relationship must be a string of the form resource:<type>#<id>'
    if (typeof target === 'string') return this.#wrong('WRONG_RELATIONSHIP', target)
    return formatRelationship(target)
  }

  #primitive(value: Json, primitive: Primitive, property: Property): Json {
    switch (primitive) {
      case 'Boolean':
        return typeof value === 'boolean' ? value : this.#wrongType(property)
      case 'String':
        if (typeof value !== 'string' || !value.isWellFormed()) return this.#wrongType(property)
        return this.#text(value, property)
      case 'DateTime': {
        if (typeof value !== 'string') return this.#wrongType(property)
        const instant = normalizeInstant(value)
        return (
          instant ??
          this.#wrong(
            'NOT_A_DATE',
            'must be a date and time in ISO 8601 format, of the years 0 to 9999',
          )
        )
      }
      default:
        if (typeof value !== 'number') return this.#wrongType(property)
        return this.#number(value, primitive, property)
    }
  }

  #text(value: string, { regex }: Property): Json {
    if (regex === null) return value
    const startedMs = performance.now()
    const matches = this.#matching.ms > MATCHING_MS_MAX ? null : matchesPattern(regex, value)
    this.#matching.ms += performance.now() - startedMs
    if (matches === true) return value
    const message = matches === null ? 'takes too long to match' : 'must match'
    return this.#wrong('PATTERN_MISMATCH', `${message} ${regex}`)
  }

  #number(given: number, primitive: Primitive, { range }: Property): Json {
    let value = given
    if (!Number.isFinite(value)) {
      return this.#wrong('NUMBER_TOO_LARGE', 'the number is too large')
    }
    if (primitive !== 'Double') {
      if (Math.abs(value) > Number.MAX_SAFE_INTEGER) {
        const message = 'must be an integer from -(2^53-1) to 2^53-1'
        return this.#wrong('NUMBER_TOO_LARGE', message)
      }
      if (this.#strictNumbers && !Number.isInteger(value)) {
        return this.#wrong('NOT_AN_INTEGER', `must be an integer, ${primitive}`)
      }
      // As in Composer, which reads 3.5 back as 3. Adding 0 turns -0 into 0.
      value = Math.trunc(value) + 0
    }
    if (inRange(value, range)) return value
    const bounds = `[${range?.lower ?? ''},${range?.upper ?? ''}]`
    return this.#wrong('OUT_OF_RANGE', `must be in the range ${bounds}`)
  }

  #wrongType(property: Property): null {
    const article = /^[AEIOU]/.test(property.primitive ?? '') ? 'an' : 'a'
    const type = formatType({ ...property, array: false })
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

/** Whether `value` is in `range`, including its bounds. */
export function inRange(value: number, range: Property['range']): boolean {
  if (range === null) return true
  return value >= (range.lower ?? value) && value <= (range.upper ?? value)
}
