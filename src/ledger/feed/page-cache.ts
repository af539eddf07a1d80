import assert from 'node:assert/strict'
import {
  type Block,
  type EntryHead,
  packPosition,
  parseEntryHead,
  positionText,
  unpackHeight,
} from '../../chain/index.ts'
import { StoreError, type StoreReader } from '../../storage/index.ts'
import type { EntryFilter } from '../read/entry-filter.ts'

/** Maximum blocks of a page. A page can have fewer, because the store also limits the length of the texts. */
const PAGE_BLOCKS = 256
/** Length of a chunk in characters. A chunk ends with the entry that reaches this length. */
const CHUNK_CHARACTERS = 131_072
/** Approximate bytes of memory of a block or a chunk, in addition to its text. */
const OVERHEAD_BYTES = 2_048

/** Events in wire format, shared by the subscribers that need the same events. */
export interface Chunk {
  readonly bytes: Buffer
  /** Packed position at which the next chunk begins. */
  readonly next: number
  /** Packed position of the last entry before `next`. */
  readonly last: number
  /** Number of subscribers whose connection has not accepted the whole chunk yet. */
  holders: number
}

/** Called for each entry, in order. Returns whether to continue. */
type EntryVisitor = (position: number, timestamp: number, entry: string) => boolean

/** Blocks that were read from the store together. */
export class EntryPage {
  /** Packed position after the last block. */
  readonly end: number
  /** Packed position of the last entry. */
  readonly last: number
  /** Height of the first block. */
  readonly first: number
  readonly #blocks: readonly Block[]
  /** For each block, the head of each entry, computed on demand. */
  readonly #heads: (EntryHead | null)[][] = []

  /** `blocks`: one or more consecutive blocks. */
  constructor(blocks: readonly Block[]) {
    const [first, last] = [blocks[0], blocks.at(-1)]
    assert(first !== undefined && last !== undefined)
    this.end = packPosition(last.height + 1, 0)
    this.last = packPosition(last.height, last.entries.length - 1)
    this.first = first.height
    this.#blocks = blocks
  }

  /** Approximate memory in bytes. */
  get bytes(): number {
    let sum = 0
    for (const { entries } of this.#blocks) {
      sum += OVERHEAD_BYTES
      for (const entry of entries) sum += entry.length
    }
    return sum
  }

  /** Returns whether an entry exists at `position`, which must be in the range of this page. */
  holds(position: number): boolean {
    const block = this.#blocks[unpackHeight(position) - this.first]
    if (block === undefined) return false
    return position - packPosition(block.height, 0) < block.entries.length
  }

  /**
   * Calls `visit` for each entry that matches `filter`, from packed position `from` on, until `visit` returns false.
   * Returns the packed position at which to continue.
   */
  walk(from: number, filter: EntryFilter | null, visit: EntryVisitor): number {
    for (let at = unpackHeight(from) - this.first; at < this.#blocks.length; at += 1) {
      const block = this.#blocks[at]
      assert(block !== undefined)
      const start = packPosition(block.height, 0)
      const heads = filter === null ? [] : this.#listHeads(at, block)
      for (let index = Math.max(0, from - start); index < block.entries.length; index += 1) {
        if (filter !== null && !filter.matches(heads[index] ?? null)) continue
        const more = visit(start + index, block.timestamps[index] ?? 0, block.entries[index] ?? '')
        if (!more) return start + index + 1
      }
    }
    return this.end
  }

  #listHeads(at: number, { entries }: Block): (EntryHead | null)[] {
    this.#heads[at] ??= entries.map(parseEntryHead)
    return this.#heads[at]
  }
}

/**
 * The most recently read pages of the node's own chain, and the chunks made from them. An entry is read and encoded
 * once for all subscribers.
 */
export class PageCache {
  readonly #store: StoreReader
  /** Pages by the height of their first block, in the order in which they were read. */
  readonly #pages: BoundedMap<number, EntryPage>
  /** Chunks by position and filter. */
  readonly #chunks: BoundedMap<string, Chunk>
  /** Number of calls of `clear`. */
  #clears = 0

  /** `bytesMax`: maximum memory, except that the newest page and chunk are always kept. */
  constructor(store: StoreReader, bytesMax: number) {
    this.#store = store
    this.#pages = new BoundedMap(bytesMax / 2, (page) => page.bytes)
    this.#chunks = new BoundedMap(bytesMax / 2, ({ bytes }) => bytes.length + OVERHEAD_BYTES)
  }

  cached(height: number): EntryPage | undefined {
    return this.#pages.get(height)
  }

  /**
   * Returns the page that begins at `height`, which must exist. Reads a page that is not cached up to `end`, exclusive.
   * Errors: the errors of the store.
   */
  async page(height: number, end: number): Promise<EntryPage> {
    const cached = this.#pages.get(height)
    if (cached !== undefined) return cached
    const count = Math.min(PAGE_BLOCKS, end - height)
    const clears = this.#clears
    const blocks = await this.#store.blocks(this.#store.serverId, height, count)
    if (blocks[0]?.height !== height) {
      throw new StoreError('STORE_DAMAGED', `block ${height} is missing`)
    }
    const page = new EntryPage(blocks)
    // If an erasure has cleared the cache during the read, does not cache the page, because it may contain erased
    // entries.
    if (this.#clears === clears) this.#pages.set(height, page)
    return page
  }

  /** Returns the events of `page` from packed position `from` on, restricted to those that match `filter`. */
  chunk(page: EntryPage, from: number, filter: EntryFilter | null): Chunk {
    const key = `${from} ${filter?.key ?? ''}`
    const cached = this.#chunks.get(key)
    if (cached !== undefined) return cached
    let text = ''
    const next = page.walk(from, filter, (position, timestamp, entry) => {
      text += eventText(position, timestamp, entry)
      return text.length < CHUNK_CHARACTERS
    })
    const last = next === page.end ? page.last : next - 1
    const chunk = { bytes: Buffer.from(text), next, last, holders: 0 }
    if (this.#pages.get(page.first) === page) this.#chunks.set(key, chunk)
    return chunk
  }

  clear(): void {
    this.#clears += 1
    this.#pages.clear()
    this.#chunks.clear()
  }
}

/** A map that evicts the oldest values while the total size exceeds `max`, but always keeps the newest value. */
class BoundedMap<Key, Value> {
  readonly #max: number
  readonly #sizeOf: (value: Value) => number
  readonly #values = new Map<Key, { value: Value; size: number }>()
  #size = 0

  constructor(max: number, sizeOf: (value: Value) => number) {
    this.#max = max
    this.#sizeOf = sizeOf
  }

  get(key: Key): Value | undefined {
    return this.#values.get(key)?.value
  }

  set(key: Key, value: Value): void {
    this.#delete(key)
    const size = this.#sizeOf(value)
    this.#values.set(key, { value, size })
    this.#size += size
    for (const oldest of this.#values.keys()) {
      if (this.#size <= this.#max || oldest === key) break
      this.#delete(oldest)
    }
  }

  clear(): void {
    this.#values.clear()
    this.#size = 0
  }

  #delete(key: Key): void {
    this.#size -= this.#values.get(key)?.size ?? 0
    this.#values.delete(key)
  }
}

/**
 * Returns an entry as an event. Canonical JSON has no newline, so the data is one line.
 * Source: HTML Living Standard, “Server-sent events”; docs/decisions/0020-change-feed.md.
 */
function eventText(position: number, timestamp: number, entry: string): string {
  const at = positionText(position)
  return `id: ${at}\nevent: entry\ndata: {"position":"${at}","timestamp":${timestamp},"entry":${entry}}\n\n`
}
