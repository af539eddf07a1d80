import { READY } from '../search/declared-indexes.ts'
import type { Index, IndexEntry } from '../sql/indexes.ts'

/** Characters of the entries that a build sorts at once. They take about twice as many bytes of memory. */
const SORTED_CHARACTERS = 32 * 1024 * 1024

/** Entries, sorted, of which the first `next` are taken. */
interface Chunk {
  readonly texts: string[]
  next: number
}

/**
 * A part of the build of an index: collects entries, then yields them in the order of their keys. So the entries of an
 * index become neighbours in the file, instead of changing a page each.
 *
 * An entry is a text of one-byte characters: its key, the position of its item (8 bytes), and a byte for `sorts`. In
 * memory, it takes a quarter of an object. The order of the texts need not be exact, because it only saves time.
 */
export class IndexBuild {
  readonly number: number
  /** The entries of the items created up to this position are collected. READY: of all items. */
  collected: number
  /** Items that were changed since they were collected. Their entries are in the store already. */
  readonly changed = new Set<number>()
  #chunks: Chunk[] = []
  #characters = 0
  #isSorted = false

  constructor({ number, built }: Index) {
    this.number = number
    this.collected = built
  }

  /** Whether `take` comes next, instead of `add`. */
  get isFull(): boolean {
    return this.collected === READY || this.#characters >= SORTED_CHARACTERS
  }

  get isEmpty(): boolean {
    return this.#chunks.length === 0
  }

  /** Adds the entries of the next items, up to position `collected`. */
  add(entries: readonly IndexEntry[], collected: number): void {
    const texts = entries.map(toText).sort()
    for (const { length } of texts) this.#characters += length
    if (texts.length > 0) this.#chunks.push({ texts, next: 0 })
    this.collected = collected
  }

  take(count: number): IndexEntry[] {
    if (!this.#isSorted) this.#chunks.sort((one, other) => (first(one) < first(other) ? -1 : 1))
    this.#isSorted = true
    const entries: IndexEntry[] = []
    for (let chunk = this.#chunks[0]; chunk && entries.length < count; chunk = this.#chunks[0]) {
      const entry = this.#toEntry(first(chunk))
      if (!this.changed.has(entry.created)) entries.push(entry)
      chunk.next += 1
      this.#chunks.shift()
      if (chunk.next < chunk.texts.length) this.#insert(chunk)
    }
    return entries
  }

  /** Inserts a chunk before the chunks whose next entries are greater. */
  #insert(chunk: Chunk): void {
    let [from, to] = [0, this.#chunks.length]
    while (from < to) {
      const middle = (from + to) >>> 1
      const other = this.#chunks[middle]
      if (other !== undefined && first(other) < first(chunk)) from = middle + 1
      else to = middle
    }
    this.#chunks.splice(from, 0, chunk)
  }

  #toEntry(text: string): IndexEntry {
    const bytes = Buffer.from(text, 'latin1')
    const end = bytes.length - TAIL_BYTES
    return {
      number: this.number,
      key: bytes.subarray(0, end),
      created: bytes.readDoubleBE(end),
      sorts: bytes[end + 8] === 1,
    }
  }
}

const TAIL_BYTES = 9

function toText({ key, created, sorts }: IndexEntry): string {
  const bytes = Buffer.allocUnsafe(key.length + TAIL_BYTES)
  bytes.set(key)
  bytes.writeDoubleBE(created, key.length)
  bytes[key.length + 8] = sorts ? 1 : 0
  return bytes.toString('latin1')
}

function first({ texts, next }: Chunk): string {
  return texts[next] ?? ''
}
