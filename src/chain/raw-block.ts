import { type Json, parseJson } from '../base/json.ts'
import type { BlockParts } from './block-json.ts'
import { HASH_BYTES } from './hashes.ts'

// The fast path of restore and verify. Blocks and entries become substrings of their JSON text, if the text is exactly
// what `provenBlockJson` and `entryText` write. Decoding all entries and printing them again, to get the canonical
// form, would take a fifth of the total time. Any other text is left to the ordinary decoder, so every function here
// may return null for valid JSON.

/** A `create_item` or `update_item` entry with its canonical text, as found in the input. */
export class RawEntry {
  readonly text: string
  readonly method: 'create_item' | 'update_item'
  readonly db: string
  readonly id: string
  readonly itemText: string

  constructor(
    text: string,
    method: RawEntry['method'],
    { db, id, itemText }: { db: string; id: string; itemText: string },
  ) {
    this.text = text
    this.method = method
    this.db = db
    this.id = id
    this.itemText = itemText
  }
}

/** A block with its entries; entries that are not raw are decoded JSON. */
export class RawBlock {
  readonly parts: Omit<BlockParts, 'body'> & { readonly body: readonly (Json | RawEntry)[] }

  constructor(parts: RawBlock['parts']) {
    this.parts = parts
  }
}

/**
 * Returns the blocks of node `serverId` in the array that starts at `start` of `text`, and the end of the array.
 * Returns null if the array has another format. `text` was decoded from UTF-8, so it contains no lone surrogates.
 */
export function rawBlocks(
  text: string,
  start: number,
  serverId: number,
): { readonly blocks: readonly RawBlock[]; readonly end: number } | null {
  const scanner = new Scanner(text, start, serverId)
  try {
    return { blocks: scanner.blocks(), end: scanner.at }
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return null
    throw error
  }
}

/**
 * Returns the entry of node `serverId` if `text` is exactly one entry, otherwise null. `text` was decoded from UTF-8.
 */
export function rawEntry(text: string, serverId: number): RawEntry | null {
  const entry = UNUSUAL.test(text) ? null : rawEntryAt(text, 0, `${serverId}}`)
  return entry?.text.length === text.length ? entry : null
}

/** Matches escapes, which the ordinary decoder handles, and control characters, which JSON does not allow. */
const UNUSUAL = /[\\\u0000-\u001f]/
const DB = '{"db":"'
const ITEM = '","item":'
const METHOD = ',"method":"'
const SERVER_ID = '","serverid":'
const METHODS = ['create_item', 'update_item'] as const

/**
 * Returns the entry at `start`, or null. The entry must end with `end`: the server id and a brace. The caller checks
 * for unusual characters.
 */
function rawEntryAt(text: string, start: number, end: string): RawEntry | null {
  if (!text.startsWith(DB, start)) return null
  const dbEnd = text.indexOf('"', start + DB.length)
  if (!text.startsWith(ITEM, dbEnd)) return null
  const itemStart = dbEnd + ITEM.length
  const item: FoundId = { id: null }
  const itemEnd =
    text.charCodeAt(itemStart) === OPEN_OBJECT ? objectEnd(text, itemStart, DEPTH_MAX, item) : NONE
  if (itemEnd === NONE || item.id === null || !text.startsWith(METHOD, itemEnd)) return null
  const method = METHODS.find((one) => text.startsWith(one, itemEnd + METHOD.length))
  if (method === undefined) return null
  const methodEnd = itemEnd + METHOD.length + method.length
  const idStart = methodEnd + SERVER_ID.length
  if (!text.startsWith(SERVER_ID, methodEnd) || !text.startsWith(end, idStart)) return null
  return new RawEntry(text.slice(start, idStart + end.length), method, {
    db: text.slice(start + DB.length, dbEnd),
    id: item.id,
    itemText: text.slice(itemStart, itemEnd),
  })
}

const QUOTED_HASH_LENGTH = HASH_BYTES * 2 + 2
const ZEROS = `"${'0'.repeat(HASH_BYTES * 2)}"`
const INTEGERS = /^(?:0|[1-9]\d{0,14})(?:,(?:0|[1-9]\d{0,14}))*$/

/** Scans a text once. Errors: SyntaxError if the text has another format; RangeError from `parseJson`. */
class Scanner {
  at: number
  readonly #text: string
  readonly #entryEnd: string
  readonly #unusual = new RegExp(UNUSUAL, 'g')
  /** Index of the next unusual character at or after the current entry. */
  #unusualAt = -1

  constructor(text: string, start: number, serverId: number) {
    this.#text = text
    this.at = start
    this.#entryEnd = `${serverId}}`
  }

  blocks(): RawBlock[] {
    const blocks: RawBlock[] = []
    this.#expect('[')
    do blocks.push(this.#block())
    while (this.#skips(','))
    this.#expect(']')
    return blocks
  }

  #entry(): Json | RawEntry {
    const start = this.at
    const entry = rawEntryAt(this.#text, start, this.#entryEnd)
    if (entry !== null && this.#nextUnusual(start) >= start + entry.text.length) {
      this.at += entry.text.length
      return entry
    }
    this.#skipObject()
    return parseJson(this.#text.slice(start, this.at))
  }

  #block(): RawBlock {
    this.#expect('{"prev_id":')
    const prevId = this.#skips('null') ? null : this.#hex(128)
    this.#expect(',"body":[')
    const body: (Json | RawEntry)[] = []
    do body.push(this.#entry())
    while (this.#skips(','))
    this.#expect('],"timestamps":[')
    const timestamps = this.#integers(']')
    this.#expect('],"nonce":')
    const [nonce = 0] = this.#integers(',')
    this.#expect(',"id":')
    const id = this.#hex(128)
    this.#expect(',"proof":{"height":')
    const [height = 0] = this.#integers(',')
    this.#expect(',"root":')
    const root = this.#hex(64)
    this.#expect(',"blinds":[')
    const blinds = this.#hashes('null')
    this.#expect('],"commitments":[')
    const commitments = this.#hashes(ZEROS)
    this.#expect(']}}')
    return new RawBlock({ prevId, body, timestamps, nonce, id, height, root, blinds, commitments })
  }

  #nextUnusual(start: number): number {
    if (this.#unusualAt < start) {
      this.#unusual.lastIndex = start
      this.#unusualAt = this.#unusual.exec(this.#text)?.index ?? Number.POSITIVE_INFINITY
    }
    return this.#unusualAt
  }

  /** Skips an object. The object may be invalid JSON, which `parseJson` detects. */
  #skipObject(): void {
    let depth = 0
    for (; ; this.at += 1) {
      const char = this.#text[this.at]
      if (char === '"') this.#skipString()
      else if (char === '{' || char === '[') depth += 1
      else if (char === '}' || char === ']') depth -= 1
      else if (char === undefined) throw new SyntaxError('an object does not end')
      if (depth <= 0) break
    }
    this.at += 1
  }

  #skipString(): void {
    for (this.at += 1; this.#text[this.at] !== '"'; this.at += 1) {
      if (this.#text[this.at] === '\\') this.at += 1
      else if (this.at >= this.#text.length) throw new SyntaxError('a string does not end')
    }
  }

  #integers(end: string): number[] {
    const list = this.#upTo(end)
    if (!INTEGERS.test(list)) throw new SyntaxError('these are not integers')
    let [last, number] = ['', 0]
    // Many consecutive timestamps are equal, so equal digits are converted only once.
    return list.split(',').map((digits) => {
      if (digits !== last) [last, number] = [digits, Number(digits)]
      return number
    })
  }

  /** Reads a quoted hexadecimal text. Returns a copy, because a substring would keep the whole text in memory. */
  #hex(digits: number): string {
    this.#expect('"')
    const written = this.#upTo('"')
    const hex = Buffer.from(written, 'hex').toString('hex')
    if (written.length !== digits || hex !== written) throw new SyntaxError('this is not hex')
    this.at += 1
    return hex
  }

  /** Decodes a list of hashes. The JSON value `zeros` stands for 32 zero bytes. */
  #hashes(zeros: string): Uint8Array {
    const written = this.#upTo(']')
    const list = written.includes(zeros) ? written.replaceAll(zeros, ZEROS) : written
    for (let at = 0; at < list.length; at += QUOTED_HASH_LENGTH + 1) {
      if (list[at] !== '"' || list[at + QUOTED_HASH_LENGTH - 1] !== '"') {
        throw new SyntaxError('these are not hashes')
      }
    }
    const hex = list.slice(1, -1).replaceAll('","', '')
    const hashes = Buffer.from(hex, 'hex')
    if (hashes.length % HASH_BYTES !== 0 || hashes.toString('hex') !== hex) {
      throw new SyntaxError('these are not hashes')
    }
    return new Uint8Array(hashes.buffer, hashes.byteOffset, hashes.length)
  }

  #upTo(end: string): string {
    const at = this.#text.indexOf(end, this.at)
    if (at === -1) throw new SyntaxError(`${end} is missing`)
    const start = this.at
    this.at = at
    return this.#text.slice(start, at)
  }

  #skips(expected: string): boolean {
    if (!this.#text.startsWith(expected, this.at)) return false
    this.at += expected.length
    return true
  }

  #expect(expected: string): void {
    if (!this.#skips(expected)) throw new SyntaxError(`${expected} is missing`)
  }
}

// Code units of JSON (RFC 8259 section 2), because comparing numbers creates no strings.
const QUOTE = 0x22
const COMMA = 0x2c
const MINUS = 0x2d
const ZERO = 0x30
const NINE = 0x39
const COLON = 0x3a
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

const DEPTH_MAX = 64
/** Maximum digits of an integer that ECMAScript always prints unchanged. */
const EXACT_DIGITS_MAX = 15
/** Returned instead of an end if the text is not canonical JSON, or not recognized as canonical JSON. */
const NONE = -1

/** Returns the end of the canonical value (RFC 8785 section 3.2) at `start`, or NONE. */
function valueEnd(text: string, start: number, depth: number): number {
  const first = text.charCodeAt(start)
  if (first === QUOTE) return text.indexOf('"', start + 1) + 1 || NONE
  if (first === OPEN_OBJECT) return objectEnd(text, start, depth - 1, null)
  if (first === OPEN_ARRAY) return arrayEnd(text, start, depth - 1)
  if (first === MINUS || (first >= ZERO && first <= NINE)) return numberEnd(text, start)
  for (const literal of ['true', 'false', 'null']) {
    if (text.startsWith(literal, start)) return start + literal.length
  }
  return NONE
}

interface FoundId {
  id: string | null
}

/** Returns the end of the canonical object at `start`, or NONE. Sets `item.id` if the member `id` is a string. */
function objectEnd(text: string, start: number, depth: number, item: FoundId | null): number {
  if (depth < 0) return NONE
  if (text.charCodeAt(start + 1) === CLOSE_OBJECT) return start + 2
  let previous: string | null = null
  for (let at = start + 1; ; at += 1) {
    if (text.charCodeAt(at) !== QUOTE) return NONE
    const nameEnd = text.indexOf('"', at + 1)
    if (nameEnd < 0 || text.charCodeAt(nameEnd + 1) !== COLON) return NONE
    const name = text.slice(at + 1, nameEnd)
    // Canonical names are in the order of UTF-16 code units, without duplicates.
    if (previous !== null && name <= previous) return NONE
    previous = name
    const valueStart = nameEnd + 2
    at = valueEnd(text, valueStart, depth)
    if (at === NONE) return NONE
    if (name === 'id' && item !== null && text.charCodeAt(valueStart) === QUOTE) {
      item.id = text.slice(valueStart + 1, at - 1)
    }
    const next = text.charCodeAt(at)
    if (next === CLOSE_OBJECT) return at + 1
    if (next !== COMMA) return NONE
  }
}

function arrayEnd(text: string, start: number, depth: number): number {
  if (depth < 0) return NONE
  if (text.charCodeAt(start + 1) === CLOSE_ARRAY) return start + 2
  for (let at = start + 1; ; at += 1) {
    at = valueEnd(text, at, depth)
    if (at === NONE) return NONE
    const next = text.charCodeAt(at)
    if (next === CLOSE_ARRAY) return at + 1
    if (next !== COMMA) return NONE
  }
}

/** Returns the end of the number at `start`, or NONE unless it is written as ECMAScript prints it. */
function numberEnd(text: string, start: number): number {
  let end = start + 1
  let isInteger = true
  for (; !endsValue(text.charCodeAt(end)); end += 1) {
    const code = text.charCodeAt(end)
    isInteger &&= code >= ZERO && code <= NINE
  }
  const first = text.charCodeAt(start)
  if (isInteger && first !== MINUS && end - start <= EXACT_DIGITS_MAX) {
    return first !== ZERO || end === start + 1 ? end : NONE
  }
  const written = text.slice(start, end)
  const value = Number(written)
  return Number.isFinite(value) && `${value}` === written ? end : NONE
}

/** Whether `code` can follow a value in an array or object. NaN is the end of the text. */
function endsValue(code: number): boolean {
  return code === COMMA || code === CLOSE_ARRAY || code === CLOSE_OBJECT || Number.isNaN(code)
}
