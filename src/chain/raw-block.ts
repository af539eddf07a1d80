import { decodeAuthor } from '../base/author.ts'
import { parseJson } from '../base/json.ts'
import { FOREIGN_DEPTH_MAX, parseForeignJsonOrNull } from '../base/strict-json.ts'
import {
  BLOCK_END_LENGTH_MAX,
  type BlockParts,
  parseBlockParts,
  provenBlockJson,
} from './block-json.ts'
import { ENTRIES_MAX, isReason } from './entry.ts'

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
  /** The text without `by` and `reason`. */
  readonly plainText: string

  constructor(
    text: string,
    method: RawEntry['method'],
    { db, id, itemText, plainText }: Pick<RawEntry, 'db' | 'id' | 'itemText' | 'plainText'>,
  ) {
    this.text = text
    this.plainText = plainText
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
  const blocks: RawBlock[] = []
  let at = start
  if (text[at] !== '[') return null
  do {
    const next = blocks.length < blocksMax ? blockAt(text, at + 1, serverId) : null
    if (next === null) return null
    blocks.push(next.block)
    at = next.end
  } while (text[at] === ',')
  return text[at] === ']' ? { blocks, end: at + 1 } : null
}

/** Returns the block of node `serverId` if `text` is exactly one block, otherwise null. */
export function rawBlock(text: string, serverId: number): RawBlock | null {
  const found = blockAt(text, 0, serverId)
  return found?.end === text.length ? found.block : null
}

const BLOCK_START = /\{"prev_id":(?:null|"[0-9a-f]{128}"),"body":\[/y
const BLOCK_END = ']}}'

/** Returns the block at `start` and its end, or null. Only the text of the block without its entries is parsed. */
function blockAt(
  text: string,
  start: number,
  serverId: number,
): { readonly block: RawBlock; readonly end: number } | null {
  BLOCK_START.lastIndex = start
  if (!BLOCK_START.test(text)) return null
  const bodyStart = BLOCK_START.lastIndex
  const body: (string | RawEntry)[] = []
  let at = bodyStart - 1
  do {
    const entry = body.length < ENTRIES_MAX ? entryAt(text, at + 1, serverId) : null
    if (entry === null) return null
    body.push(entry)
    at += 1 + (typeof entry === 'string' ? entry : entry.text).length
  } while (text[at] === ',')
  const end = text.indexOf(BLOCK_END, at) + BLOCK_END.length
  if (end < at || end - at > BLOCK_END_LENGTH_MAX) return null
  const frame = text.slice(start, bodyStart) + text.slice(at, end)
  const parts = parseBlockParts(parseForeignJsonOrNull(frame))
  if (typeof parts === 'string') return null
  const isExact = provenBlockJson({ ...parts, serverId, entries: [] }) === frame
  return isExact ? { block: { ...parts, body }, end } : null
}

/** Returns the entry at `start`: an object that is neither parsed nor checked unless it is a `RawEntry`. */
function entryAt(text: string, start: number, serverId: number): string | RawEntry | null {
  const raw = rawEntryAt(text, start, serverId)
  if (raw !== null) return raw
  const end = skippedObject(text, start)
  return end === NONE ? null : text.slice(start, end)
}

/** Returns the end of the object at `start`, which may be invalid JSON, or NONE. */
function skippedObject(text: string, start: number): number {
  let depth = 0
  let isString = false
  for (let at = start; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) isString = !isString
    else if (isString) at += code === BACKSLASH ? 1 : 0
    else if (code === OPEN_OBJECT || code === OPEN_ARRAY) depth += 1
    else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) depth -= 1
    if (depth <= 0 && !isString) return at + 1
  }
  return NONE
}

/**
 * Returns the entry of node `serverId` if `text` is exactly one entry that creates or changes an item, in canonical
 * form (RFC 8785); otherwise null. `text` was decoded from UTF-8.
 */
export function rawEntry(text: string, serverId: number): RawEntry | null {
  const entry = rawEntryAt(text, 0, serverId)
  return entry?.text.length === text.length ? entry : null
}

/**
 * Returns the id of the item in a canonical entry, or null if the entry has no item. Reads the item only up to its id,
 * because the item may have 10 MB.
 */
export function findItemId(text: string): string | null {
  const head = authorEnd(text, 0)
  if (head === NONE || !text.startsWith(DB, head)) return null
  const dbEnd = stringEnd(text, head + DB.length)
  if (dbEnd === NONE || !text.startsWith(ITEM, dbEnd)) return null
  for (let at = dbEnd + ITEM.length; ; ) {
    const nameStart = at + 1
    const nameEnd = stringEnd(text, nameStart)
    const end = nameEnd === NONE ? NONE : valueEnd(text, nameEnd + 1, FOREIGN_DEPTH_MAX)
    if (end === NONE) return null
    const value = text.slice(nameEnd + 1, end)
    if (text.startsWith('"id"', nameStart)) return value.startsWith('"') ? unescaped(value) : null
    if (text.charCodeAt(end) !== COMMA) return null
    at = end
  }
}

/** The escapes of RFC 8785 section 3.2.2.2. */
const ESCAPE = /\\(?:["\\bfnrt]|u00(?:0[0-7bef]|1[0-9a-f]))/y
const BY = '{"by":'
const DB = '"db":'
const ITEM = ',"item":'
const METHODS = ['create_item', 'update_item'] as const
const REASON = '"reason":'
/** An author in printable ASCII without escapes, as almost all are. Others are parsed. */
const PLAIN_BY = /\{"by":\{(?:"iss":"[ !#-[\]-~]{1,512}",)?"sub":"[ !#-[\]-~]{1,256}"\},/y

function rawEntryAt(text: string, start: number, serverId: number): RawEntry | null {
  const head = authorEnd(text, start)
  const dbStart = head + DB.length
  if (head === NONE || !text.startsWith(DB, head) || text.charCodeAt(dbStart) !== QUOTE) return null
  const dbEnd = stringEnd(text, dbStart)
  if (dbEnd === NONE || !text.startsWith(ITEM, dbEnd)) return null
  const itemStart = dbEnd + ITEM.length
  const item: FoundId = { id: null }
  const itemEnd =
    text.charCodeAt(itemStart) === OPEN_OBJECT
      ? objectEnd(text, itemStart, FOREIGN_DEPTH_MAX, item)
      : NONE
  if (itemEnd === NONE || item.id === null) return null
  for (const method of METHODS) {
    const verb = `,"method":"${method}",`
    if (!text.startsWith(verb, itemEnd)) continue
    const verbEnd = itemEnd + verb.length
    const reasonEnd = endAfterReason(text, verbEnd)
    const rest = `"serverid":${serverId}}`
    if (reasonEnd === NONE || !text.startsWith(rest, reasonEnd)) return null
    const whole = text.slice(start, reasonEnd + rest.length)
    const isPlain = head === start + 1 && reasonEnd === verbEnd
    return new RawEntry(whole, method, {
      db: unescaped(text.slice(dbStart, dbEnd)),
      id: item.id,
      itemText: text.slice(itemStart, itemEnd),
      plainText: isPlain ? whole : `{${text.slice(head, verbEnd)}${rest}`,
    })
  }
  return null
}

/** Returns the end of the brace at `start` and of the author after it, if there is one; NONE if it is not canonical. */
function authorEnd(text: string, start: number): number {
  if (!text.startsWith(BY, start)) return text.charCodeAt(start) === OPEN_OBJECT ? start + 1 : NONE
  PLAIN_BY.lastIndex = start
  if (PLAIN_BY.test(text)) return PLAIN_BY.lastIndex
  const by = start + BY.length
  const end = text.charCodeAt(by) === OPEN_OBJECT ? objectEnd(text, by, 1, { id: null }) : NONE
  const isAuthor = end !== NONE && decodeAuthor(parseJson(text.slice(by, end))) !== null
  return isAuthor && text.charCodeAt(end) === COMMA ? end + 1 : NONE
}

/** Returns `start`, or the end of the reason at `start` and of the comma after it; NONE if it is not canonical. */
function endAfterReason(text: string, start: number): number {
  if (!text.startsWith(REASON, start)) return start
  const from = start + REASON.length
  const end = text.charCodeAt(from) === QUOTE ? stringEnd(text, from) : NONE
  if (end === NONE || !isReason(unescaped(text.slice(from, end)))) return NONE
  return text.charCodeAt(end) === COMMA ? end + 1 : NONE
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
function valueEnd(text: string, start: number, depth: number): number {
  const first = text.charCodeAt(start)
  if (first === QUOTE) return stringEnd(text, start)
  if (first === OPEN_OBJECT) return objectEnd(text, start, depth - 1, { id: null })
  if (first === OPEN_ARRAY) return arrayEnd(text, start, depth - 1)
  if (first === MINUS || (first >= ZERO && first <= NINE)) return numberEnd(text, start)
  for (const literal of ['true', 'false', 'null']) {
    if (text.startsWith(literal, start)) return start + literal.length
  }
  return NONE
}

/** Returns the end of the canonical string at `start`, or NONE. */
function stringEnd(text: string, start: number): number {
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
function unescaped(quoted: string): string {
  return !quoted.includes('\\') ? quoted.slice(1, -1) : parseJson(quoted)
}

interface FoundId {
  id: string | null
}

/** Returns the end of the canonical object at `start`, or NONE. Sets `item.id` if the member `id` is a string. */
function objectEnd(text: string, start: number, depth: number, item: FoundId): number {
  if (depth < 0) return NONE
  if (text.charCodeAt(start + 1) === CLOSE_OBJECT) return start + 2
  let previous: string | null = null
  for (let at = start + 1; ; at += 1) {
    if (text.charCodeAt(at) !== QUOTE) return NONE
    const nameEnd = stringEnd(text, at)
    if (nameEnd === NONE || text.charCodeAt(nameEnd) !== COLON) return NONE
    const name = unescaped(text.slice(at, nameEnd))
    // Canonical names are in the order of UTF-16 code units, without duplicates.
    if (previous !== null && name <= previous) return NONE
    previous = name
    const valueStart = nameEnd + 1
    at = valueEnd(text, valueStart, depth)
    if (at === NONE) return NONE
    if (name === 'id' && text.charCodeAt(valueStart) === QUOTE) {
      item.id = unescaped(text.slice(valueStart, at))
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
