import { parseJson } from '../base/json.ts'
import { FOREIGN_DEPTH_MAX } from '../base/strict-json.ts'
import type { BlockParts } from './block-json.ts'
import { ENTRIES_MAX } from './entry.ts'
import { HASH_BYTES } from './hashes.ts'

// Cuts the text of blocks into the texts of their entries, if it is exactly what `provenBlockJson` and `entryText` write.
// Items are checked, but never parsed: a parsed text takes up to 25 times its size, so the page of a hostile node could
// use up the heap of the thread that reads it. V8 then ends the whole process.

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

/** A block whose entries are texts. Texts that are not a `RawEntry` may be any text. */
export interface RawBlock extends Omit<BlockParts, 'body'> {
  readonly body: readonly (string | RawEntry)[]
}

/**
 * Returns the blocks of node `serverId` in the array that starts at `start` of `text`, at most `blocksMax`, and the end
 * of the array. Returns null if the array has another format. `text` was decoded from UTF-8, so it contains no lone
 * surrogates.
 */
export function rawBlocks(
  text: string,
  start: number,
  { serverId, blocksMax }: { readonly serverId: number; readonly blocksMax: number },
): { readonly blocks: readonly RawBlock[]; readonly end: number } | null {
  const scanner = new Scanner(text, start, serverId)
  const blocks = orNull(() => scanner.blocks(blocksMax))
  return blocks && { blocks, end: scanner.at }
}

/** Returns the block of node `serverId` if `text` is exactly one block, otherwise null. */
export function rawBlock(text: string, serverId: number): RawBlock | null {
  const scanner = new Scanner(text, 0, serverId)
  const block = orNull(() => scanner.block())
  return scanner.at === text.length ? block : null
}

function orNull<Value>(read: () => Value): Value | null {
  try {
    return read()
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

/**
 * Returns the entry of node `serverId` if `text` is exactly one entry that creates or changes an item, in canonical
 * form (RFC 8785); otherwise null. `text` was decoded from UTF-8.
 */
export function rawEntry(text: string, serverId: number): RawEntry | null {
  const entry = rawEntryAt(text, 0, { end: `${serverId}}`, isPlain: !UNUSUAL.test(text) })
  return entry?.text.length === text.length ? entry : null
}

/** Matches escapes, and control characters, which JSON does not allow. */
const UNUSUAL = /[\\\u0000-\u001f]/
/** The escapes of RFC 8785 section 3.2.2.2. */
const ESCAPE = /\\(?:["\\bfnrt]|u00(?:0[0-7bef]|1[0-9a-f]))/y
const DB = '{"db":'
const ITEM = ',"item":'
const METHOD = ',"method":"'
const SERVER_ID = '","serverid":'
const METHODS = ['create_item', 'update_item'] as const

/**
 * Returns the entry at `start`, or null. The entry must end with `end`: the server id and a brace. If `isPlain`, the
 * caller checks that the entry has no unusual characters.
 */
function rawEntryAt(
  text: string,
  start: number,
  { end, isPlain }: { readonly end: string; readonly isPlain: boolean },
): RawEntry | null {
  if (!text.startsWith(`${DB}"`, start)) return null
  const dbStart = start + DB.length
  const dbEnd = stringEnd(text, dbStart, isPlain)
  if (dbEnd === NONE || !text.startsWith(ITEM, dbEnd)) return null
  const itemStart = dbEnd + ITEM.length
  const item: FoundId = { id: null, isPlain }
  const itemEnd =
    text.charCodeAt(itemStart) === OPEN_OBJECT
      ? objectEnd(text, itemStart, FOREIGN_DEPTH_MAX, item)
      : NONE
  if (itemEnd === NONE || item.id === null || !text.startsWith(METHOD, itemEnd)) return null
  const method = METHODS.find((one) => text.startsWith(one, itemEnd + METHOD.length))
  if (method === undefined) return null
  const methodEnd = itemEnd + METHOD.length + method.length
  const idStart = methodEnd + SERVER_ID.length
  if (!text.startsWith(SERVER_ID, methodEnd) || !text.startsWith(end, idStart)) return null
  return new RawEntry(text.slice(start, idStart + end.length), method, {
    db: unescaped(text.slice(dbStart, dbEnd), isPlain),
    id: item.id,
    itemText: text.slice(itemStart, itemEnd),
  })
}

const QUOTED_HASH_LENGTH = HASH_BYTES * 2 + 2
const ZEROS = `"${'0'.repeat(HASH_BYTES * 2)}"`
const INTEGERS = /^(?:0|[1-9]\d{0,15})(?:,(?:0|[1-9]\d{0,15}))*$/
/** Maximum characters of an integer and a comma. */
const INTEGER_LENGTH_MAX = 17

/** Scans a text. Errors: SyntaxError if the text has another format. */
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

  blocks(max: number): RawBlock[] {
    return this.#list('[', ']', max, () => this.block())
  }

  /** Reads a list with at least one element. */
  #list<Element>(open: string, close: string, max: number, read: () => Element): Element[] {
    const list: Element[] = []
    this.#expect(open)
    do {
      if (list.length === max) throw new SyntaxError(`the list has more than ${max} elements`)
      list.push(read())
    } while (this.#skips(','))
    this.#expect(close)
    return list
  }

  #entry(): string | RawEntry {
    const start = this.at
    const end = this.#entryEnd
    let entry = rawEntryAt(this.#text, start, { end, isPlain: true })
    if (entry === null || this.#nextUnusual(start) < start + entry.text.length) {
      entry = rawEntryAt(this.#text, start, { end, isPlain: false })
    }
    if (entry === null) this.#skipObject()
    else this.at += entry.text.length
    return entry ?? this.#text.slice(start, this.at)
  }

  block(): RawBlock {
    this.#expect('{"prev_id":')
    const prevId = this.#skips('null') ? null : this.#hex(128)
    const body = this.#list(',"body":[', ']', ENTRIES_MAX, () => this.#entry())
    this.#expect(',"timestamps":[')
    const timestamps = this.#integers(']', body.length)
    this.#expect('],"nonce":')
    const [nonce = 0] = this.#integers(',', 1)
    this.#expect(',"id":')
    const id = this.#hex(128)
    this.#expect(',"proof":{"height":')
    const [height = 0] = this.#integers(',', 1)
    this.#expect(',"root":')
    const root = this.#hex(64)
    this.#expect(',"blinds":[')
    const blinds = this.#hashes('null', body.length)
    this.#expect('],"commitments":[')
    const commitments = this.#hashes(ZEROS, body.length)
    this.#expect(']}}')
    return { prevId, body, timestamps, nonce, id, height, root, blinds, commitments }
  }

  #nextUnusual(start: number): number {
    if (this.#unusualAt < start) {
      this.#unusual.lastIndex = start
      this.#unusualAt = this.#unusual.exec(this.#text)?.index ?? Number.POSITIVE_INFINITY
    }
    return this.#unusualAt
  }

  /** Skips an object, which may be invalid JSON. */
  #skipObject(): void {
    let depth = 0
    let isString = false
    for (; ; this.at += 1) {
      const code = this.#text.charCodeAt(this.at)
      if (Number.isNaN(code)) throw new SyntaxError('an object does not end')
      if (code === QUOTE) isString = !isString
      else if (isString) this.at += code === BACKSLASH ? 1 : 0
      else if (code === OPEN_OBJECT || code === OPEN_ARRAY) depth += 1
      else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) depth -= 1
      if (depth <= 0 && !isString) break
    }
    this.at += 1
  }

  #integers(end: string, countMax: number): number[] {
    const list = this.#upTo(end, countMax * INTEGER_LENGTH_MAX)
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
    const written = this.#upTo('"', digits)
    const hex = Buffer.from(written, 'hex').toString('hex')
    if (written.length !== digits || hex !== written) throw new SyntaxError('this is not hex')
    this.at += 1
    return hex
  }

  /** Decodes a list of hashes. The JSON value `zeros` stands for 32 zero bytes. */
  #hashes(zeros: string, countMax: number): Uint8Array {
    const written = this.#upTo(']', countMax * (QUOTED_HASH_LENGTH + 1))
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

  #upTo(end: string, lengthMax: number): string {
    const at = this.#text.indexOf(end, this.at)
    if (at === -1 || at - this.at > lengthMax) throw new SyntaxError(`${end} is missing`)
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
const BACKSLASH = 0x5c
const SPACE = 0x20
const COMMA = 0x2c
const MINUS = 0x2d
const ZERO = 0x30
const NINE = 0x39
const COLON = 0x3a
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/** Maximum digits of an integer that ECMAScript always prints unchanged. */
const EXACT_DIGITS_MAX = 15
/** Returned instead of an end if the text is not canonical JSON. */
const NONE = -1

/** Returns the end of the canonical value (RFC 8785 section 3.2) at `start`, or NONE. */
function valueEnd(text: string, start: number, depth: number, isPlain: boolean): number {
  const first = text.charCodeAt(start)
  if (first === QUOTE) return stringEnd(text, start, isPlain)
  if (first === OPEN_OBJECT) return objectEnd(text, start, depth - 1, { id: null, isPlain })
  if (first === OPEN_ARRAY) return arrayEnd(text, start, depth - 1, isPlain)
  if (first === MINUS || (first >= ZERO && first <= NINE)) return numberEnd(text, start)
  for (const literal of ['true', 'false', 'null']) {
    if (text.startsWith(literal, start)) return start + literal.length
  }
  return NONE
}

/** Returns the end of the canonical string at `start`, or NONE. If `isPlain`, does not look for unusual characters. */
function stringEnd(text: string, start: number, isPlain: boolean): number {
  if (isPlain) return text.indexOf('"', start + 1) + 1 || NONE
  for (let at = start + 1; ; at += 1) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at + 1
    if (!(code >= SPACE)) return NONE
    if (code !== BACKSLASH) continue
    ESCAPE.lastIndex = at
    if (!ESCAPE.test(text)) return NONE
    at = ESCAPE.lastIndex - 1
  }
}

/** Returns the value of a canonical string with its quotes. */
function unescaped(quoted: string, isPlain: boolean): string {
  return isPlain || !quoted.includes('\\') ? quoted.slice(1, -1) : parseJson(quoted)
}

interface FoundId {
  id: string | null
  readonly isPlain: boolean
}

/** Returns the end of the canonical object at `start`, or NONE. Sets `item.id` if the member `id` is a string. */
function objectEnd(text: string, start: number, depth: number, item: FoundId): number {
  const { isPlain } = item
  if (depth < 0) return NONE
  if (text.charCodeAt(start + 1) === CLOSE_OBJECT) return start + 2
  let previous: string | null = null
  for (let at = start + 1; ; at += 1) {
    if (text.charCodeAt(at) !== QUOTE) return NONE
    const nameEnd = stringEnd(text, at, isPlain)
    if (nameEnd === NONE || text.charCodeAt(nameEnd) !== COLON) return NONE
    const name = unescaped(text.slice(at, nameEnd), isPlain)
    // Canonical names are in the order of UTF-16 code units, without duplicates.
    if (previous !== null && name <= previous) return NONE
    previous = name
    const valueStart = nameEnd + 1
    at = valueEnd(text, valueStart, depth, isPlain)
    if (at === NONE) return NONE
    if (name === 'id' && text.charCodeAt(valueStart) === QUOTE) {
      item.id = unescaped(text.slice(valueStart, at), isPlain)
    }
    const next = text.charCodeAt(at)
    if (next === CLOSE_OBJECT) return at + 1
    if (next !== COMMA) return NONE
  }
}

function arrayEnd(text: string, start: number, depth: number, isPlain: boolean): number {
  if (depth < 0) return NONE
  if (text.charCodeAt(start + 1) === CLOSE_ARRAY) return start + 2
  for (let at = start + 1; ; at += 1) {
    at = valueEnd(text, at, depth, isPlain)
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
