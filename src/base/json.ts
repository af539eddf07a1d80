/** Any JSON value, as `JSON.parse` returns it. */
export type Json = null | boolean | number | string | Json[] | JsonObject

export type JsonObject = { [member: string]: Json }

/** Whether `value`, which was parsed from JSON, is an object: neither null nor an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether `value`, which was parsed from JSON, is a non-negative safe integer. `-0` is none, because `0` is its spelling. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0 && !Object.is(value, -0)
}

/**
 * Parses JSON like `JSON.parse`, but avoids a bug of V8 (at least in Node 22 and 24) that confuses member names written
 * with an escape. For example, after an object with the member `\` was parsed, `JSON.parse` reads `{"\n":1}` as an
 * object with the member `\`. So anyone who can store an object could change how other objects are read. This function
 * parses texts with escaped member names itself, member by member.
 *
 * Errors: SyntaxError, as from `JSON.parse`; RangeError if a text with escaped names nests thousands of levels deep.
 * Source: RFC 8259; docs/decisions/0003-strict-json.md.
 */
// biome-ignore lint/suspicious/noExplicitAny: the type of JSON.parse, which this replaces
export function parseJson(text: string): any {
  const value: unknown = JSON.parse(text)
  return hasEscapedName(text) ? new Reader(text).value() : value
}

const SPACES = /[ \t\n\r]*/y
/** A number, `true`, `false` or `null`. */
const PLAIN = /[^,\]}\s]+/y

/** Whether any member name in `text`, which must be valid JSON, contains an escape. */
function hasEscapedName(text: string): boolean {
  let at = text.indexOf('\\')
  while (at !== -1) {
    const end = endOfString(text, at)
    SPACES.lastIndex = end
    SPACES.test(text)
    if (text[SPACES.lastIndex] === ':') return true
    at = text.indexOf('\\', end)
  }
  return false
}

/**
 * Returns the index after the closing quote of the string that contains index `at`, which must not be inside an escape.
 */
function endOfString(text: string, at: number): number {
  // A loop, because a regular expression overflows the stack on strings of megabytes.
  for (let end = at; ; end += 1) {
    if (text[end] === '\\') end += 1
    else if (text[end] === '"') return end + 1
  }
}

/** Parses text that `JSON.parse` has accepted. */
class Reader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  value(): unknown {
    switch (this.#next()) {
      case '{':
        return this.#object()
      case '[':
        return this.#array()
      case '"':
        return this.#string()
      default:
        PLAIN.lastIndex = this.#at
        PLAIN.test(this.#text)
        return JSON.parse(this.#take(PLAIN.lastIndex))
    }
  }

  #object(): object {
    const object = {}
    while (this.#hasMore('}')) {
      const name = this.#string()
      this.#next()
      this.#at += 1 // the colon
      const value = this.value()
      // Defines the member, because an assignment to `__proto__` would set the prototype instead.
      const own = { value, writable: true, enumerable: true, configurable: true }
      Object.defineProperty(object, name, own)
    }
    return object
  }

  #array(): unknown[] {
    const array: unknown[] = []
    while (this.#hasMore(']')) array.push(this.value())
    return array
  }

  /** Skips the opening bracket or comma before an element. If no element follows, skips `close` and returns false. */
  #hasMore(close: string): boolean {
    if (this.#next() !== close) this.#at += 1
    if (this.#next() !== close) return true
    this.#at += 1
    return false
  }

  #string(): string {
    return JSON.parse(this.#take(endOfString(this.#text, this.#at + 1)))
  }

  /** Skips white space and returns the next character. */
  #next(): string | undefined {
    SPACES.lastIndex = this.#at
    SPACES.test(this.#text)
    this.#at = SPACES.lastIndex
    return this.#text[this.#at]
  }

  #take(end: number): string {
    const from = this.#at
    this.#at = end
    return this.#text.slice(from, end)
  }
}
