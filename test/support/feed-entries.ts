import { type Entry, parsePosition } from '../../src/chain/index.ts'
import type { ChangesStart, Subscriber, Subscription } from '../../src/ledger/feed/feed.ts'
import type { LedgerService } from '../../src/ledger/index.ts'
import { entryFilter } from '../../src/ledger/read/entry-filter.ts'

/** An entry with its packed position and its timestamp. */
export interface FeedEntry {
  readonly position: number
  readonly timestamp: number
  readonly entry: Entry
}

/** Subscribes to the changes of `service` in this process. The subscription ends when the caller leaves the loop. */
export async function entriesOf(
  { feed }: LedgerService,
  range: { after?: ChangesStart; db?: readonly string[]; signal?: AbortSignal } = {},
): Promise<AsyncIterableIterator<FeedEntry>> {
  const entries = new FeedEntries()
  const filter = entryFilter({ db: range.db })
  entries.subscription = await feed.subscribe(entries, range.after ?? 'now', filter)
  range.signal?.addEventListener('abort', () => entries.leave(), { once: true })
  return entries
}

class FeedEntries implements Subscriber, AsyncIterableIterator<FeedEntry> {
  subscription: Subscription | null = null
  #batch: FeedEntry[] = []
  #ended = false
  #error: Error | null = null
  #wake: () => void = () => {}

  send(events: Buffer): void {
    this.#batch = [...events.toString().matchAll(/^data: (.*)$/gm)].map(([, data = '']) => {
      const { position, timestamp, entry } = JSON.parse(data)
      return { position: parsePosition(position) ?? -1, timestamp, entry }
    })
    this.#wake()
  }

  heartbeat(): void {}

  end(error: Error | null): void {
    this.#ended = true
    this.#error = error
    this.#wake()
  }

  leave(): void {
    this.subscription?.leave()
    this.#batch = []
    this.end(null)
  }

  async next(): Promise<IteratorResult<FeedEntry>> {
    for (;;) {
      const value = this.#batch.shift()
      if (value !== undefined) {
        if (this.#batch.length === 0) this.subscription?.ready()
        return { done: false, value }
      }
      if (this.#error !== null) throw this.#error
      if (this.#ended) return { done: true, value: undefined }
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  async return(): Promise<IteratorResult<FeedEntry>> {
    this.leave()
    return { done: true, value: undefined }
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}
