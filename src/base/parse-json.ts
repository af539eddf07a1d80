const BACKSLASH = '\\'
const QUOTE = '"'
const SPACES = /[ \t\n\r]*/y
/** A number or a word; what else could stand there was refused before. */
const PLAIN = /[^,\]}\s]+/y

/**
 * What `JSON.parse` should give. Where a member's name is written with an escape, V8 (in Node 22 and 24 at
 * least) may take another name for it: after an object with the member `\` the text `{"\n":1}` is read as
 * one with the member `\` too, because it compares what is written, not what is meant. So whoever can store
 * an object could change how others are read. Texts with such names are read here, member by member.
 *
 * Errors: SyntaxError, as from `JSON.parse`; RangeError for such a text that is nested some thousand levels deep.
 * Source: RFC 8259; docs/decisions/0131-escaped-names.md.
 */
// biome-ignore lint/suspicious/noExplicitAny: the type of JSON.parse, in whose place this stands
export function parseJson(text: string): any {
  const value: unknown = JSON.parse(text)
  return hasEscapedName(text) ? new Reader(text).value() : value
}

/** Whether a member's name has an escape in it. `text` is JSON. */
function hasEscapedName(text: string): boolean {
  let at = text.indexOf(BACKSLASH)
  while (at !== -1) {
    const end = endOfString(text, at)
    SPACES.lastIndex = end
    SPACES.test(text)
    if (text[SPACES.lastIndex] === ':') return true
    at = text.indexOf(BACKSLASH, end)
  }
  return false
}

/** Behind the quote that closes the string within which `at` is, at no escaped character. */
function endOfString(text: string, at: number): number {
  for (let end = at; ; end += 1) {
    if (text[end] === BACKSLASH) end += 1
    else if (text[end] === QUOTE) return end + 1
  }
}

/** Reads a text that is known to be JSON. */
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
      case QUOTE:
        return this.#string()
      default:
        PLAIN.lastIndex = this.#at
        PLAIN.test(this.#text)
        return JSON.parse(this.#to(PLAIN.lastIndex))
    }
  }

  #object(): object {
    const object = {}
    while (this.#isMore('}')) {
      this.#next()
      const name = this.#string()
      this.#next()
      this.#at += 1 // the colon
      const value = this.value()
      // Assigned, `__proto__` would not be a member.
      const own = { value, writable: true, enumerable: true, configurable: true }
      Object.defineProperty(object, name, own)
    }
    return object
  }

  #array(): unknown[] {
    const array: unknown[] = []
    while (this.#isMore(']')) array.push(this.value())
    return array
  }

  /** Steps over the bracket or comma at hand; whether anything but `close` follows, which is passed. */
  #isMore(close: string): boolean {
    if (this.#next() !== close) this.#at += 1
    if (this.#next() !== close) return true
    this.#at += 1
    return false
  }

  /** A string alone has no names in it. */
  #string(): string {
    return JSON.parse(this.#to(endOfString(this.#text, this.#at + 1)))
  }

  /** The next character that is no space. */
  #next(): string | undefined {
    SPACES.lastIndex = this.#at
    SPACES.test(this.#text)
    this.#at = SPACES.lastIndex
    return this.#text[this.#at]
  }

  #to(end: number): string {
    const from = this.#at
    this.#at = end
    return this.#text.slice(from, end)
  }
}
