import type { Entry } from '../../chain/index.ts'
import { storedJson } from '../../storage/index.ts'
import type { DatabaseFilter } from './database-filter.ts'
import type { EntryPage } from './entry-page.ts'
import type { Follower, Seat } from './feed.ts'

/** An entry, and where and when it was recorded. */
export interface PlacedEntry {
  /** Packed. */
  readonly position: number
  /** Milliseconds since the Unix epoch. */
  readonly timestamp: number
  readonly entry: Entry
}

/** Characters that are taken from the feed at a time; one entry more may pass it. */
const BATCH_CHARACTERS = 131_072

/**
 * Follows the feed as an iterator. At most one batch waits for whoever iterates, however slow that
 * is. It ends when `signal` does, when the loop is left, or when the node closes; it fails when the
 * chain cannot be read.
 */
export class EntryIterator implements Follower, AsyncIterableIterator<PlacedEntry> {
  readonly held = null
  readonly #filter: DatabaseFilter | null
  #seat: Seat | null = null
  #batch: PlacedEntry[] = []
  #at = 0
  #ended = false
  #error: Error | null = null
  /** Those who wait for an entry or the end. */
  #wake: (() => void)[] = []

  constructor(filter: DatabaseFilter | null) {
    this.#filter = filter
  }

  /** Once it is let in. */
  open(seat: Seat, signal: AbortSignal | undefined): void {
    this.#seat = seat
    if (signal?.aborted === true) this.#leave()
    else signal?.addEventListener('abort', () => this.#leave(), { once: true })
  }

  get busy(): boolean {
    return this.#at < this.#batch.length
  }

  take(page: EntryPage, from: number): number {
    const batch: PlacedEntry[] = []
    let characters = 0
    const next = page.walk(from, this.#filter, (position, timestamp, text) => {
      // What the store holds are entries: `verify` is what doubts them.
      batch.push({ position, timestamp, entry: storedJson(text) })
      characters += text.length
      return characters < BATCH_CHARACTERS
    })
    this.#batch = batch
    this.#at = 0
    if (batch.length > 0) this.#tell()
    return next
  }

  beat(): void {}

  end(error: Error | null): void {
    this.#ended = true
    this.#error = error
    this.#tell()
  }

  async next(): Promise<IteratorResult<PlacedEntry>> {
    for (;;) {
      const value = this.#batch[this.#at]
      if (value !== undefined) {
        this.#at += 1
        if (!this.busy) this.#seat?.ready()
        return { done: false, value }
      }
      if (this.#error !== null) throw this.#error
      if (this.#ended) return { done: true, value: undefined }
      await new Promise<void>((resolve) => this.#wake.push(resolve))
    }
  }

  async return(): Promise<IteratorResult<PlacedEntry>> {
    this.#leave()
    return { done: true, value: undefined }
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  #leave(): void {
    this.#seat?.leave()
    this.#batch = []
    this.end(null)
  }

  #tell(): void {
    const waiting = this.#wake
    this.#wake = []
    for (const wake of waiting) wake()
  }
}
