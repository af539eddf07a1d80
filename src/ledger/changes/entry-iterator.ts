import type { Entry } from '../../chain/index.ts'
import { storedJson } from '../../storage/index.ts'
import type { Subscriber, Subscription } from './feed.ts'
import type { DatabaseFilter, EntryPage } from './page-cache.ts'

/** An entry with its position and time. */
export interface PlacedEntry {
  /** Packed. */
  readonly position: number
  /** Milliseconds since the Unix epoch. */
  readonly timestamp: number
  readonly entry: Entry
}

/** A batch ends with the entry that reaches this many characters. */
const BATCH_CHARACTERS = 131_072

/**
 * A subscription as an iterator. It buffers at most one batch, however slow the consumer is. It ends when
 * the signal aborts, the loop is left, or the node closes; it fails if the chain cannot be read.
 */
export class EntryIterator implements Subscriber, AsyncIterableIterator<PlacedEntry> {
  readonly held = null
  readonly #filter: DatabaseFilter | null
  #subscription: Subscription | null = null
  #batch: PlacedEntry[] = []
  #at = 0
  #ended = false
  #error: Error | null = null
  /** Pending calls of `next`. */
  #waiting: (() => void)[] = []

  constructor(filter: DatabaseFilter | null) {
    this.#filter = filter
  }

  open(subscription: Subscription, signal: AbortSignal | undefined): void {
    this.#subscription = subscription
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
      batch.push({ position, timestamp, entry: storedJson(text) })
      characters += text.length
      return characters < BATCH_CHARACTERS
    })
    this.#batch = batch
    this.#at = 0
    if (batch.length > 0) this.#wake()
    return next
  }

  heartbeat(): void {}

  end(error: Error | null): void {
    this.#ended = true
    this.#error = error
    this.#wake()
  }

  async next(): Promise<IteratorResult<PlacedEntry>> {
    for (;;) {
      const value = this.#batch[this.#at]
      if (value !== undefined) {
        this.#at += 1
        if (!this.busy) this.#subscription?.ready()
        return { done: false, value }
      }
      if (this.#error !== null) throw this.#error
      if (this.#ended) return { done: true, value: undefined }
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
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
    this.#subscription?.leave()
    this.#batch = []
    this.end(null)
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }
}
