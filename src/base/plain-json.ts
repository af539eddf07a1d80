import { numberEnd } from './canonical-scan.ts'
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
import { JSON_DEPTH_MAX } from './strict-text.ts'

/** What makes a text need more than this: escapes, controls; line ends and tabs between values as well. */
const UNUSUAL = /[\\\u0000-\u001f]/
/** More members are not sorted one by one. */
const FEW = 16
/** Most strings end within so many characters. */
const NEAR = 16
const WORDS = ['true', 'false', 'null']

/** An object by its members, in the order of their names' UTF-16 code units, each once. */
export interface PlainObject {
  readonly names: readonly string[]
  /** `members[i]` is the canonical text of the member `names[i]`, its name included. */
  readonly members: readonly string[]
}

/**
 * The object, or the objects of the array, that `text` is; null says nothing: it may be JSON all the
 * same, or what `parseStrictText` refuses, and must be given to that.
 *
 * Most of what is sent is written plainly: no escapes, numbers as they are printed, at most spaces
 * between. Of that the canonical form is cut out of the text, which takes a third of the time of
 * making values of it and printing those. `text` must come from UTF-8, so that it has no lone surrogate.
 * Source: RFC 8785 section 3.2; docs/decisions/0130-plain-bodies.md.
 */
export function plainObjects(text: string): PlainObject | readonly PlainObject[] | null {
  if (UNUSUAL.test(text)) return null
  const scan = new Scan(text)
  const found = scan.next() === OPEN_ARRAY ? scan.objects() : scan.object(1)
  return scan.isWhole() ? found : null
}

/** One walk over a text. Its methods return null where a text is not plain; then it is over. */
class Scan {
  readonly #text: string
  #at = 0
  #isBroken = false

  constructor(text: string) {
    this.#text = text
  }

  /** The code unit at which the next value or sign begins; NaN at the end. */
  next(): number {
    while (this.#text.charCodeAt(this.#at) === SPACE) this.#at += 1
    return this.#text.charCodeAt(this.#at)
  }

  /** Whether all was what it should be, and nothing follows. */
  isWhole(): boolean {
    return !this.#isBroken && Number.isNaN(this.next())
  }

  objects(): PlainObject[] | null {
    const objects: PlainObject[] = []
    for (let goesOn = this.#opens(CLOSE_ARRAY); goesOn; goesOn = this.#continues(CLOSE_ARRAY)) {
      const object = this.object(2)
      if (object === null) return null
      objects.push(object)
    }
    return objects
  }

  object(depth: number): PlainObject | null {
    if (depth > JSON_DEPTH_MAX || this.next() !== OPEN_OBJECT) return null
    const names: string[] = []
    const members: string[] = []
    for (let goesOn = this.#opens(CLOSE_OBJECT); goesOn; goesOn = this.#continues(CLOSE_OBJECT)) {
      if (this.next() !== QUOTE) return null
      const start = this.#at
      const end = this.#quoteAfter(start + 1)
      if (end === -1) return null
      const name = this.#text.slice(start + 1, end)
      this.#at = end + 1
      if (name === '__proto__' || this.next() !== COLON) return null
      this.#at += 1
      const isTight = this.#at === end + 2
      const from = this.#at
      const value = this.#value(depth)
      if (value === null) return null
      names.push(name)
      // Mostly nothing is to be changed: then it is cut out as it stands.
      const isCut = isTight && isSimple(value) && this.#at - from === value.length
      members.push(isCut ? this.#text.slice(start, this.#at) : `"${name}":${value}`)
    }
    return inOrder(names, members)
  }

  /** Steps over the bracket at hand; whether there is anything before `close`. */
  #opens(close: number): boolean {
    this.#at += 1
    if (this.next() !== close) return true
    this.#at += 1
    return false
  }

  /** Steps over the sign at hand; whether it is a comma and not `close`. */
  #continues(close: number): boolean {
    const sign = this.next()
    this.#at += 1
    if (sign === COMMA) return true
    if (sign !== close) this.#isBroken = true
    return false
  }

  /** The canonical text of the value at hand, within `depth` objects and arrays. */
  #value(depth: number): string | null {
    const first = this.next()
    if (first === QUOTE) return this.#cut(this.#quoteAfter(this.#at + 1) + 1)
    if (first === OPEN_OBJECT) {
      const object = this.object(depth + 1)
      return object && textOfPlain(object)
    }
    if (first === OPEN_ARRAY) return this.#array(depth + 1)
    if (first === MINUS || (first >= ZERO && first <= NINE)) {
      return this.#cut(numberEnd(this.#text, this.#at))
    }
    for (const word of WORDS) {
      if (this.#text.startsWith(word, this.#at)) return this.#cut(this.#at + word.length)
    }
    return null
  }

  #array(depth: number): string | null {
    if (depth > JSON_DEPTH_MAX) return null
    let text = '['
    for (let goesOn = this.#opens(CLOSE_ARRAY); goesOn; goesOn = this.#continues(CLOSE_ARRAY)) {
      const value = this.#value(depth)
      if (value === null) return null
      text += text.length === 1 ? value : `,${value}`
    }
    return `${text}]`
  }

  #cut(end: number): string | null {
    if (end <= 0) return null
    const start = this.#at
    this.#at = end
    return this.#text.slice(start, end)
  }

  /** Where the next quote stands, or -1: near ones are found faster by looking. */
  #quoteAfter(start: number): number {
    for (let at = start; at < start + NEAR; at += 1) {
      if (this.#text.charCodeAt(at) === QUOTE) return at
    }
    return this.#text.indexOf('"', start + NEAR)
  }
}

/** Whether `value` has no parts, which might stand in another order. */
function isSimple(value: string): boolean {
  const first = value.charCodeAt(0)
  return first !== OPEN_OBJECT && first !== OPEN_ARRAY
}

/** Null when a name stands there twice. */
function inOrder(names: string[], members: string[]): PlainObject | null {
  if (names.length > FEW) return manyInOrder(names, members)
  for (let at = 1; at < names.length; at += 1) {
    const name = names[at] as string
    const member = members[at] as string
    let to = at
    for (; to > 0 && (names[to - 1] as string) > name; to -= 1) {
      names[to] = names[to - 1] as string
      members[to] = members[to - 1] as string
    }
    if (to > 0 && names[to - 1] === name) return null
    names[to] = name
    members[to] = member
  }
  return { names, members }
}

function manyInOrder(names: string[], members: string[]): PlainObject | null {
  const memberOf = new Map(names.map((name, at) => [name, members[at] as string]))
  if (memberOf.size < names.length) return null
  const sorted = names.sort()
  return { names: sorted, members: sorted.map((name) => memberOf.get(name) as string) }
}

/** The canonical text of `object`. */
export function textOfPlain({ members }: PlainObject): string {
  return `{${members.join(',')}}`
}
