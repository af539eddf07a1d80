import type { Json, JsonObject } from './json.ts'

/** Strings that `JSON.stringify` would change: quotes, backslashes, controls, lone surrogates. */
const NEEDS_ESCAPE = /["\\\u0000-\u001f\ud800-\udfff]/

/**
 * The one text of `value` under RFC 8785 (JSON Canonicalization Scheme): members sorted by UTF-16
 * code units, no space, numbers and strings as ECMAScript prints them.
 *
 * Errors: RangeError for NaN, an infinity or a lone surrogate, which I-JSON cannot hold (RFC 8785
 * section 3.2.2); callers refuse those at the door, so reaching it is a defect or a foreign chain.
 * Source: RFC 8785 section 3.2.
 */
export function canonicalJson(value: Json): string {
  // What was canonical before, as all that is stored, stands in order: printing that takes a third.
  const text = isInOrder(value) ? JSON.stringify(value) : null
  // It prints a lone surrogate as an escape of this form, where the other refuses it.
  return text === null || text.includes('\\ud') ? textOf(value) : text
}

/** Whether the members of objects in `value` are sorted, and its numbers finite. */
function isInOrder(value: Json | undefined): boolean {
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object' || value === null) return value !== undefined
  if (Array.isArray(value)) return value.every(isInOrder)
  let before = ''
  for (const name of Object.keys(value)) {
    if (name < before) return false
    before = name
    const member = value[name]
    if (typeof member !== 'string' && !isInOrder(member)) return false
  }
  return true
}

function textOf(value: Json): string {
  switch (typeof value) {
    case 'string':
      return canonicalString(value)
    case 'number':
      if (!Number.isFinite(value)) throw new RangeError(`no canonical form for ${value}`)
      return `${value}`
    case 'boolean':
      return value ? 'true' : 'false'
    default:
      if (value === null) return 'null'
      return Array.isArray(value) ? canonicalArray(value) : canonicalObject(value)
  }
}

/** The canonical text of one string, with its quotes. Errors as for `canonicalJson`. */
export function canonicalString(value: string): string {
  if (!NEEDS_ESCAPE.test(value)) return `"${value}"`
  if (!value.isWellFormed()) throw new RangeError('no canonical form for a lone surrogate')
  // RFC 8785 section 3.2.2.2 prescribes exactly the escapes of ECMAScript's JSON.stringify.
  return JSON.stringify(value)
}

function canonicalArray(values: readonly Json[]): string {
  let text = '['
  let separator = ''
  for (const value of values) {
    text += separator + textOf(value)
    separator = ','
  }
  return `${text}]`
}

function canonicalObject(object: JsonObject): string {
  let text = '{'
  let separator = ''
  for (const name of sortedNames(object)) {
    const value = object[name]
    if (value === undefined) continue
    text += `${separator}${canonicalString(name)}:${textOf(value)}`
    separator = ','
  }
  return `${text}}`
}

/** Member names by UTF-16 code units, the default order of sort(): RFC 8785 section 3.2.3. */
function sortedNames(object: JsonObject): string[] {
  const names = Object.keys(object)
  let before = ''
  for (const name of names) {
    // Sorting costs more than looking.
    if (name < before) return names.sort()
    before = name
  }
  return names
}
