import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  MINUS,
  NINE,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
  SPACE,
  ZERO,
} from './json-signs.ts'

/** What makes a text need more than this scan: escapes, controls; and surrogates, which most texts cannot have. */
const UNUSUAL = /[\\\u0000-\u001f]/
const SURROGATE = /[\ud800-\udfff]/
/** Objects and arrays within each other that are followed. */
const DEPTH_MAX = 64
/** Integers of so many digits are printed as they are read. */
const SAFE_DIGITS = 15

/** No value ends here: the text is not canonical, or not plainly so. */
const NOT = -1

/**
 * The text of the member that `names` lead to, from object to object, when `text` is an object and plainly
 * what `canonicalJson` prints of it; else null, which says nothing: it may be canonical all the same.
 *
 * That is a quarter of the cost of parsing and printing. Source: RFC 8785 section 3.2.
 */
export function canonicalMember(text: string, ...names: readonly string[]): string | null {
  if (text.charCodeAt(0) !== OPEN_OBJECT || UNUSUAL.test(text) || SURROGATE.test(text)) return null
  const sought: Sought = { names, level: 0, member: null }
  return objectEnd(text, 0, DEPTH_MAX, sought) === text.length ? sought.member : null
}

/**
 * The member `name` of the object that begins at `at` of `text`, and where that object ends, when it stands
 * there plainly as `canonicalJson` prints it; else null. What is between must be free of escapes, controls
 * and lone surrogates, which is for the caller to see to.
 */
export function memberAt(
  text: string,
  at: number,
  name: string,
): { readonly end: number; readonly member: string } | null {
  if (text.charCodeAt(at) !== OPEN_OBJECT) return null
  const sought: Sought = { names: [name], level: 0, member: null }
  const end = objectEnd(text, at, DEPTH_MAX, sought)
  return end === NOT || sought.member === null ? null : { end, member: sought.member }
}

/** What is looked for on the way. */
interface Sought {
  readonly names: readonly string[]
  /** Which of the names leads on from the object that is gone through. */
  level: number
  member: string | null
}

/** Where the value that begins at `at` ends, or NOT. */
function valueEnd(text: string, at: number, depth: number): number {
  const first = text.charCodeAt(at)
  if (first === QUOTE) return text.indexOf('"', at + 1) + 1 || NOT
  if (first === OPEN_OBJECT) return objectEnd(text, at, depth - 1, null)
  if (first === OPEN_ARRAY) return arrayEnd(text, at, depth - 1)
  if (first === MINUS || (first >= ZERO && first <= NINE)) return numberEnd(text, at)
  for (const word of ['true', 'false', 'null']) {
    if (text.startsWith(word, at)) return at + word.length
  }
  return NOT
}

function objectEnd(text: string, start: number, depth: number, sought: Sought | null): number {
  if (depth < 0) return NOT
  if (text.charCodeAt(start + 1) === CLOSE_OBJECT) return start + 2
  let before: string | null = null
  for (let at = start + 1; ; at += 1) {
    if (text.charCodeAt(at) !== QUOTE) return NOT
    const nameEnd = text.indexOf('"', at + 1)
    if (nameEnd < 0 || text.charCodeAt(nameEnd + 1) !== COLON) return NOT
    const name = text.slice(at + 1, nameEnd)
    // One after the other in the order of UTF-16 code units, and none twice.
    if (before !== null && name <= before) return NOT
    before = name
    const isSought = sought !== null && name === sought.names[sought.level]
    at = isSought ? soughtEnd(text, nameEnd + 2, depth, sought) : valueEnd(text, nameEnd + 2, depth)
    if (at === NOT) return NOT
    const next = text.charCodeAt(at)
    if (next === CLOSE_OBJECT) return at + 1
    if (next !== COMMA) return NOT
  }
}

/** As `valueEnd`, of a value that the next name of `sought` leads to. */
function soughtEnd(text: string, at: number, depth: number, sought: Sought): number {
  if (sought.level === sought.names.length - 1) {
    const end = valueEnd(text, at, depth)
    if (end !== NOT) sought.member = text.slice(at, end)
    return end
  }
  if (text.charCodeAt(at) !== OPEN_OBJECT) return valueEnd(text, at, depth)
  sought.level += 1
  const end = objectEnd(text, at, depth - 1, sought)
  sought.level -= 1
  return end
}

function arrayEnd(text: string, start: number, depth: number): number {
  if (depth < 0) return NOT
  if (text.charCodeAt(start + 1) === CLOSE_ARRAY) return start + 2
  for (let at = start + 1; ; at += 1) {
    at = valueEnd(text, at, depth)
    if (at === NOT) return NOT
    const next = text.charCodeAt(at)
    if (next === CLOSE_ARRAY) return at + 1
    if (next !== COMMA) return NOT
  }
}

/**
 * Where the number that begins at `start` ends, when it is written as it is printed; else -1. Behind it
 * stands a comma, a closing bracket, a space, or nothing.
 */
function numberEnd(text: string, start: number): number {
  let end = start + 1
  let isInteger = true
  for (; ; end += 1) {
    const code = text.charCodeAt(end)
    if (code >= ZERO && code <= NINE) continue
    if (isAfterValue(code)) break
    // Whatever else stands there belongs to it.
    isInteger = false
  }
  const first = text.charCodeAt(start)
  const isPrintedSo =
    isInteger && first !== MINUS && end - start <= SAFE_DIGITS
      ? first !== ZERO || end === start + 1
      : isPrinted(text.slice(start, end))
  return isPrintedSo ? end : NOT
}

function isAfterValue(code: number): boolean {
  return (
    code === COMMA ||
    code === CLOSE_ARRAY ||
    code === CLOSE_OBJECT ||
    code === SPACE ||
    Number.isNaN(code)
  )
}

/** Whether `written` is how the number that it says is printed. */
function isPrinted(written: string): boolean {
  const value = Number(written)
  return Number.isFinite(value) && `${value}` === written
}
