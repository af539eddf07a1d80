import { isJsonObject, type Json, type JsonObject } from '../base/json.ts'
import type { Path, Scalar } from './filter.ts'

/** Whether `value` can be compared. */
function isScalar(value: Json): value is Scalar {
  return typeof value !== 'object' || value === null
}

/**
 * Everything that `path` reaches in `resource`: where an array lies on the way, the path goes on in
 * each of its elements that is an object. Empty when there is no such member anywhere.
 */
export function reached(resource: JsonObject, path: Path): Json[] {
  let values: Json[] = [resource]
  for (const step of path) {
    const next: Json[] = []
    for (const value of values) {
      for (const holder of Array.isArray(value) ? value : [value]) {
        const member = memberOf(holder, step)
        if (member !== undefined) next.push(member)
      }
    }
    values = next
  }
  return values
}

/**
 * The values at `path` that conditions look at: what it reaches, and of an array its elements. Arrays
 * in arrays, and objects, are no values. A path that reaches nothing has the one value null.
 */
export function scalarsAt(resource: JsonObject, path: Path): Scalar[] {
  const values = reached(resource, path)
  if (values.length === 0) return [null]
  return values.flatMap((value) => (Array.isArray(value) ? value : [value])).filter(isScalar)
}

/** An own member: `toString` is nobody's. */
function memberOf(value: Json, name: string): Json | undefined {
  return isJsonObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

/** What an order knows of an array or an object: that it is one. */
export const COMPOUND = Symbol('an array or object')
/** What an order compares. */
export type SortValue = Scalar | typeof COMPOUND

/** Orders look at this many UTF-16 units of a text, so that what they keep of it is bounded. */
const SORT_CHARACTERS = 256

/**
 * What an order compares of the member at `path`: null when it is not there; COMPOUND when it, or what
 * is on the way to it, is an array, or when it is an object; of a long text its beginning.
 */
export function sortValueAt(resource: JsonObject, path: Path): SortValue {
  let value: Json = resource
  for (const step of path) {
    const member = memberOf(value, step)
    if (member === undefined) return Array.isArray(value) ? COMPOUND : null
    value = member
  }
  if (!isScalar(value)) return COMPOUND
  return typeof value === 'string' ? sortText(value) : value
}

/** The beginning of `text` that orders and indexes go by; never half of a surrogate pair. */
export function sortText(text: string): string {
  if (text.length <= SORT_CHARACTERS) return text
  const cut = text.slice(0, SORT_CHARACTERS)
  return cut.isWellFormed() ? cut : cut.slice(0, -1)
}

/**
 * Compares two texts by Unicode code points, which is the order of their UTF-8 bytes and so that of
 * every engine. JavaScript's own `<` differs where one has a surrogate pair.
 */
export function compareTexts(one: string, other: string): number {
  const length = Math.min(one.length, other.length)
  for (let at = 0; at < length; at += 1) {
    const a = one.charCodeAt(at)
    const b = other.charCodeAt(at)
    if (a !== b) return codePointRank(a) - codePointRank(b)
  }
  return one.length - other.length
}

/** Surrogates stand for code points above all that one unit can hold. */
function codePointRank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit
}
