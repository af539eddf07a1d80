import { isJsonObject, type Json, type JsonObject } from '../base/json.ts'
import type { TypeOf } from './field-type.ts'
import { FILTER_LIMITS, FilterError, type FilterErrorCode, type Path } from './filter.ts'

const { characters: CHARACTERS_MAX, pathCharacters, pathSteps } = FILTER_LIMITS

export class FilterLocation {
  /** Members and indexes from the filter's root. */
  readonly path: readonly (string | number)[]
  /** Whether the filter is in bracket form, where every value is a text. */
  readonly isText: boolean
  readonly typeOf: TypeOf | undefined

  constructor(path: readonly (string | number)[], isText: boolean, typeOf?: TypeOf) {
    this.path = path
    this.isText = isText
    this.typeOf = typeOf
  }

  child(part: string | number): FilterLocation {
    return new FilterLocation([...this.path, part], this.isText, this.typeOf)
  }

  error(code: FilterErrorCode, reason: string): FilterError {
    return new FilterError(code, this.path, reason)
  }

  /** Throws FILTER_TOO_LARGE if `count` is more than `max`. */
  requireMax(count: number, max: number, unit: string): void {
    if (count > max) throw this.error('FILTER_TOO_LARGE', `more than ${max} ${unit}`)
  }
}

/**
 * Returns the elements of a list. A single text is a list of one element, except in the JSON form of `where`. In
 * bracket form, an object with indexes as names is a list too. Errors: FILTER_MALFORMED, FILTER_TOO_LARGE beyond `max`.
 */
export function requireList(value: Json, location: FilterLocation, max: number): Json[] {
  const list = requireElements(value, location)
  if (list.length <= max) return list
  throw location.error('FILTER_TOO_LARGE', `it has more than ${max} elements`)
}

function requireElements(given: Json, location: FilterLocation): Json[] {
  if (Array.isArray(given)) return given
  const { isText, path } = location
  if (typeof given === 'string' && (isText || path[0] !== 'where')) return [given]
  if (isText && isJsonObject(given)) {
    const entries = Object.entries(given)
    if (entries.every(([name]) => /^\d{1,6}$/.test(name))) {
      return entries.sort(([one], [other]) => Number(one) - Number(other)).map(([, value]) => value)
    }
  }
  throw location.error('FILTER_MALFORMED', 'must be a list')
}

/** Parses a dotted path; returns null if it is malformed or too long. */
export function parsePath(text: string): Path | null {
  const path = text.split('.')
  const isShort = text.length <= pathCharacters && path.length <= pathSteps
  // Names with control characters or lone surrogates cannot be stored.
  const isStorable = text.isWellFormed() && !/[\u0000-\u001f]/.test(text)
  return isShort && !path.includes('') && isStorable ? path : null
}

/** Like `parsePath`, but throws if `text` is not a valid path. Errors: FILTER_MALFORMED, FILTER_TOO_LARGE. */
export function requirePath(text: string, location: FilterLocation): Path {
  const path = parsePath(text)
  if (path !== null) return path
  if (text.length > pathCharacters || text.split('.').length > pathSteps) {
    const reason = `a path has at most ${pathSteps} names and ${pathCharacters} characters`
    throw location.error('FILTER_TOO_LARGE', reason)
  }
  throw location.error('FILTER_MALFORMED', 'a path must be names separated by dots')
}

/**
 * Maximum pairs of brackets in a parameter name. Each level of `and` and `or` needs two pairs (name and index);
 * `where`, the field, the operator and an index need one pair each, and one pair is spare.
 */
const BRACKETS_MAX = 2 * FILTER_LIMITS.depth + 5

/**
 * Parses query parameters `filter[…]` into a tree whose leaves are texts. Lists are objects with indexes as names. A
 * repeated parameter, or a parameter whose name ends in `[]`, is a JSON array.
 * Errors: FILTER_MALFORMED, FILTER_TOO_LARGE.
 */
export function parseTree(parameters: readonly (readonly [string, string])[]): JsonObject {
  const root = emptyNode()
  let characters = 0
  for (const [name, text] of parameters) {
    characters += name.length + text.length
    requireShort(characters)
    insertMember(root, parseBrackets(name), text)
  }
  return root
}

/** Throws FILTER_TOO_LARGE if `characters` exceeds the limit. */
export function requireShort(characters: number): void {
  if (characters <= CHARACTERS_MAX) return
  throw new FilterError('FILTER_TOO_LARGE', [], `it has more than ${CHARACTERS_MAX} characters`)
}

/** Splits a parameter name: `filter[where][a]` becomes `['where', 'a']`. */
function parseBrackets(name: string): string[] {
  const inner = name.slice('filter'.length)
  if (!/^(\[[^[\]]*\])+$/.test(inner)) {
    const reason = `the brackets of ${name.slice(0, 64)} do not match`
    throw new FilterError('FILTER_MALFORMED', [], reason)
  }
  const parts = inner.slice(1, -1).split('][')
  if (parts.length > BRACKETS_MAX) {
    const reason = `more than ${BRACKETS_MAX} brackets`
    throw new FilterError('FILTER_TOO_LARGE', parts.slice(0, 4), reason)
  }
  if (parts.length > 1 && parts.at(-1) === '') parts.pop()
  return parts
}

function insertMember(root: JsonObject, parts: readonly string[], text: string): void {
  const malformed = (reason: string) => new FilterError('FILTER_MALFORMED', parts, reason)
  const contradiction = 'it has both a value and members'
  let node = root
  for (const [at, part] of parts.entries()) {
    if (part === '') throw malformed('a pair of brackets is empty')
    const child = node[part]
    if (at === parts.length - 1) {
      if (child === undefined) node[part] = text
      else if (typeof child === 'string') node[part] = [child, text]
      else if (Array.isArray(child)) child.push(text)
      else throw malformed(contradiction)
      return
    }
    if (child !== undefined && !isJsonObject(child)) throw malformed(contradiction)
    const next = child ?? emptyNode()
    node[part] = next
    node = next
  }
}

/** Returns an object without a prototype, in which `__proto__` is an ordinary member. */
function emptyNode(): JsonObject {
  return Object.create(null)
}
