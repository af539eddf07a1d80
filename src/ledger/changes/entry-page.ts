import assert from 'node:assert/strict'
import { type Block, heightOf, packPosition, positionText } from '../../chain/index.ts'
import { type DatabaseFilter, databaseIn } from './database-filter.ts'

/** A slice ends with the entry that reaches this many characters. */
const SLICE_CHARACTERS = 131_072
/** Slices that one page keeps, bytes. */
const SLICE_BYTES_KEPT = 4 * 1024 * 1024
/** What a block costs in memory beside its entries, roughly. */
const BLOCK_OVERHEAD = 2_048

/** Events as they go over the wire, shared by all followers who need the same ones. */
export interface Slice {
  readonly bytes: Buffer
  /** Packed position from which on it says nothing. */
  readonly next: number
  /** Followers whose connection has not taken all of it yet. */
  holders: number
}

/** Is given one entry after the other; says whether it wants more. */
export type EntryVisitor = (position: number, timestamp: number, entry: string) => boolean

/**
 * Blocks that were read from the store together. What followers make of them is kept with them, so
 * that an entry is read once and put into words once, however many follow.
 */
export class EntryPage {
  /** Packed position of the first entry. */
  readonly from: number
  /** Packed position behind the last block. */
  readonly end: number
  readonly #blocks: readonly Block[]
  readonly #weigh: (more: number) => void
  readonly #slices = new Map<string, Slice>()
  #sliceBytes = 0
  /** What was asked for last: most followers ask for the same, one after the other. */
  #newest: { readonly from: number; readonly key: string; readonly slice: Slice } | null = null
  /** For each block the databases of its entries, once anybody asks. */
  readonly #databases: string[][] = []
  #weight = 0

  /** Shape: `blocks` follow each other, at least one. `weigh` is told how much more it keeps later. */
  constructor(blocks: readonly Block[], weigh: (more: number) => void) {
    const [first, last] = [blocks[0], blocks.at(-1)]
    assert(first !== undefined && last !== undefined)
    this.from = packPosition(first.height, 0)
    this.end = packPosition(last.height + 1, 0)
    this.#blocks = blocks
    this.#weigh = weigh
    let characters = 0
    for (const { entries } of blocks) {
      characters += BLOCK_OVERHEAD
      for (const entry of entries) characters += entry.length
    }
    this.#weight = characters
  }

  /** How much it keeps in memory, in characters and bytes taken together. */
  get weight(): number {
    return this.#weight
  }

  /** Whether there is an entry at `position`, which lies in this page. */
  holds(position: number): boolean {
    const block = this.#blocks[heightOf(position) - heightOf(this.from)]
    if (block === undefined) return false
    return position - packPosition(block.height, 0) < block.entries.length
  }

  /** The events from packed position `from` on, of the databases that `filter` names. */
  slice(from: number, filter: DatabaseFilter | null): Slice {
    const key = filter?.key ?? ''
    if (this.#newest?.from !== from || this.#newest.key !== key) {
      this.#newest = { from, key, slice: this.#shared(`${from} ${key}`, from, filter) }
    }
    return this.#newest.slice
  }

  #shared(key: string, from: number, filter: DatabaseFilter | null): Slice {
    const known = this.#slices.get(key)
    if (known !== undefined) return known
    let text = ''
    const next = this.walk(from, filter, (position, timestamp, entry) => {
      text += eventText(position, timestamp, entry)
      return text.length < SLICE_CHARACTERS
    })
    const made = { bytes: Buffer.from(text), next, holders: 0 }
    this.#keep(key, made)
    return made
  }

  /** With many filters there are many slices; those before the newest are least asked for. */
  #keep(key: string, slice: Slice): void {
    if (this.#sliceBytes > SLICE_BYTES_KEPT) {
      this.#slices.clear()
      this.#grow(-this.#sliceBytes)
      this.#sliceBytes = 0
    }
    this.#slices.set(key, slice)
    this.#sliceBytes += slice.bytes.length
    this.#grow(slice.bytes.length)
  }

  #grow(more: number): void {
    this.#weight += more
    this.#weigh(more)
  }

  /**
   * Shows the entries from packed position `from` on to `visit`, until that has enough; returns the
   * position to go on from.
   */
  walk(from: number, filter: DatabaseFilter | null, visit: EntryVisitor): number {
    const first = heightOf(from) - heightOf(this.from)
    for (let at = first; at < this.#blocks.length; at += 1) {
      const block = this.#blocks[at]
      assert(block !== undefined)
      const start = packPosition(block.height, 0)
      const databases = filter === null ? null : this.#databasesOf(at, block)
      for (let index = Math.max(0, from - start); index < block.entries.length; index += 1) {
        if (databases !== null && filter?.names.has(databases[index] ?? '') !== true) continue
        const more = visit(start + index, block.timestamps[index] ?? 0, block.entries[index] ?? '')
        if (!more) return start + index + 1
      }
    }
    return this.end
  }

  #databasesOf(at: number, { entries }: Block): string[] {
    const known = this.#databases[at]
    if (known !== undefined) return known
    const made = entries.map(databaseIn)
    this.#databases[at] = made
    return made
  }
}

/**
 * One entry as an event. Canonical JSON has no newline, so the data is one line.
 * Source: HTML Living Standard, “Server-sent events”; docs/decisions/0059-change-feed.md.
 */
function eventText(position: number, timestamp: number, entry: string): string {
  const at = positionText(position)
  return `id: ${at}\nevent: entry\ndata: {"position":"${at}","timestamp":${timestamp},"entry":${entry}}\n\n`
}
