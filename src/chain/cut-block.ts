import { memberAt } from '../base/canonical-scan.ts'
import { type Json, parseJson } from '../base/json.ts'
import { CLOSE_ARRAY, CLOSE_OBJECT, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from '../base/json-signs.ts'
import type { Block } from './block.ts'
import { HASH_BYTES } from './log/hashes.ts'

/** An entry that creates or changes an item, cut out of a text in which it stands in canonical form. */
export class CutEntry {
  readonly text: string
  readonly method: 'create_item' | 'update_item'
  readonly db: string
  readonly id: string
  readonly itemText: string

  constructor(
    text: string,
    method: CutEntry['method'],
    { db, id, itemText }: { db: string; id: string; itemText: string },
  ) {
    this.text = text
    this.method = method
    this.db = db
    this.id = id
    this.itemText = itemText
  }
}

/** The parts of a block as they stand in a text; its entries are values still. */
export interface ProvenBlockParts extends Omit<Block, 'serverId' | 'entries'> {
  readonly body: readonly (Json | CutEntry)[]
}

/** A block whose parts were cut out of a text, and need not be made values of; otherwise as parsed. */
export class CutBlock {
  readonly parts: ProvenBlockParts

  constructor(parts: ProvenBlockParts) {
    this.parts = parts
  }
}

/**
 * The blocks of node `serverId` in the array that begins at `start` of `text`, where they stand as
 * `provenBlockJson` writes them, and where the array ends; null says nothing: it may be JSON all the same.
 *
 * Making values of all entries and printing them again to learn their canonical form was a fifth of what a
 * restore took. An entry that this does not know by its looks is given as a value.
 * `text` must come from UTF-8, so that it has no lone surrogate.
 */
export function cutBlocks(
  text: string,
  start: number,
  serverId: number,
): { readonly blocks: readonly CutBlock[]; readonly end: number } | null {
  const cut = new Cut(text, start, serverId)
  try {
    return { blocks: cut.blocks(), end: cut.at }
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return null
    throw error
  }
}

/** What the simple way of cutting does not know: escapes; and controls, which JSON does not have. */
const UNUSUAL = /[\\\u0000-\u001f]/g
const QUOTED_HASH = HASH_BYTES * 2 + 2
const ZEROS = `"${'0'.repeat(HASH_BYTES * 2)}"`
const INTEGERS = /^(?:0|[1-9]\d{0,14})(?:,(?:0|[1-9]\d{0,14}))*$/
const DB = '{"db":"'
const ITEM = '","item":'

/** One walk over a text. Errors: SyntaxError where it is not as it is written; RangeError of `parseJson`. */
class Cut {
  at: number
  readonly #text: string
  readonly #ends: readonly (readonly [CutEntry['method'], string])[]
  /** Where the next unusual character stands, not before the entry at hand. */
  #unusualAt = -1

  constructor(text: string, start: number, serverId: number) {
    this.#text = text
    this.at = start
    const methods = ['create_item', 'update_item'] as const
    this.#ends = methods.map((method) => [method, `,"method":"${method}","serverid":${serverId}}`])
  }

  blocks(): CutBlock[] {
    const blocks: CutBlock[] = []
    this.#pass('[')
    do blocks.push(this.#block())
    while (this.#passes(','))
    this.#pass(']')
    return blocks
  }

  #block(): CutBlock {
    this.#pass('{"prev_id":')
    const prevId = this.#passes('null') ? null : this.#hex(128)
    this.#pass(',"body":[')
    const body: (Json | CutEntry)[] = []
    do body.push(this.#entry())
    while (this.#passes(','))
    this.#pass('],"timestamps":[')
    const timestamps = this.#integers(']')
    this.#pass('],"nonce":')
    const [nonce = 0] = this.#integers(',')
    this.#pass(',"id":')
    const id = this.#hex(128)
    this.#pass(',"proof":{"height":')
    const [height = 0] = this.#integers(',')
    this.#pass(',"root":')
    const root = this.#hex(64)
    this.#pass(',"blinds":[')
    const blinds = this.#hashes('null')
    this.#pass('],"commitments":[')
    const commitments = this.#hashes(null)
    this.#pass(']}}')
    return new CutBlock({ prevId, body, timestamps, nonce, id, height, root, blinds, commitments })
  }

  #entry(): Json | CutEntry {
    const start = this.at
    const entry = this.#plainEntry(start)
    if (entry !== null) return entry
    this.#passObject()
    return parseJson(this.#text.slice(start, this.at))
  }

  #plainEntry(start: number): CutEntry | null {
    const text = this.#text
    if (!text.startsWith(DB, start)) return null
    const dbEnd = text.indexOf('"', start + DB.length)
    if (!text.startsWith(ITEM, dbEnd)) return null
    const itemAt = dbEnd + ITEM.length
    const item = memberAt(text, itemAt, 'id')
    if (item === null || !item.member.startsWith('"')) return null
    const found = this.#ends.find(([, tail]) => text.startsWith(tail, item.end))
    if (found === undefined) return null
    const [method, tail] = found
    const end = item.end + tail.length
    if (this.#unusualFrom(start) < end) return null
    this.at = end
    return new CutEntry(text.slice(start, end), method, {
      db: text.slice(start + DB.length, dbEnd),
      id: item.member.slice(1, -1),
      itemText: text.slice(itemAt, item.end),
    })
  }

  #unusualFrom(start: number): number {
    if (this.#unusualAt < start) {
      UNUSUAL.lastIndex = start
      this.#unusualAt = UNUSUAL.exec(this.#text)?.index ?? Number.POSITIVE_INFINITY
    }
    return this.#unusualAt
  }

  /** Steps over an object, if it is JSON. */
  #passObject(): void {
    let depth = 0
    for (; ; this.at += 1) {
      const code = this.#text.charCodeAt(this.at)
      if (code === QUOTE) this.#passString()
      else if (code === OPEN_OBJECT || code === OPEN_ARRAY) depth += 1
      else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) depth -= 1
      else if (Number.isNaN(code)) throw new SyntaxError('an object does not end')
      if (depth <= 0) break
    }
    this.at += 1
  }

  /** Up to its last quote. */
  #passString(): void {
    for (this.at += 1; this.#text.charCodeAt(this.at) !== QUOTE; this.at += 1) {
      if (this.#text[this.at] === '\\') this.at += 1
      else if (this.at >= this.#text.length) throw new SyntaxError('a string does not end')
    }
  }

  #integers(end: string): number[] {
    const list = this.#upTo(end)
    if (!INTEGERS.test(list)) throw new SyntaxError('these are not integers')
    let [last, number] = ['', 0]
    // Entries made together bear the same timestamp.
    return list.split(',').map((digits) => {
      if (digits !== last) [last, number] = [digits, Number(digits)]
      return number
    })
  }

  /** A text of its own: it is kept longer than the one that it stands in. */
  #hex(digits: number): string {
    this.#pass('"')
    const written = this.#upTo('"')
    const hex = Buffer.from(written, 'hex').toString('hex')
    if (written.length !== digits || hex !== written) throw new SyntaxError('this is not hex')
    this.at += 1
    return hex
  }

  /** Hashes as they are listed; `zeros` is how 32 zeros may be written. */
  #hashes(zeros: string | null): Buffer {
    const written = this.#upTo(']')
    const list =
      zeros !== null && written.includes(zeros) ? written.replaceAll(zeros, ZEROS) : written
    for (let at = 0; at < list.length; at += QUOTED_HASH + 1) {
      const isQuoted =
        list.charCodeAt(at) === QUOTE && list.charCodeAt(at + QUOTED_HASH - 1) === QUOTE
      if (!isQuoted) throw new SyntaxError('these are not hashes')
    }
    const hex = list.slice(1, -1).replaceAll('","', '')
    const hashes = Buffer.from(hex, 'hex')
    if (hashes.length % HASH_BYTES === 0 && hashes.toString('hex') === hex) return hashes
    throw new SyntaxError('these are not hashes')
  }

  #upTo(sign: string): string {
    const end = this.#text.indexOf(sign, this.at)
    if (end === -1) throw new SyntaxError(`${sign} is missing`)
    const start = this.at
    this.at = end
    return this.#text.slice(start, end)
  }

  #passes(sign: string): boolean {
    if (!this.#text.startsWith(sign, this.at)) return false
    this.at += sign.length
    return true
  }

  #pass(sign: string): void {
    if (!this.#passes(sign)) throw new SyntaxError(`${sign} is missing`)
  }
}
