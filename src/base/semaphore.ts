/**
 * Gives a number of permits to callers in the order of their calls, but after a caller, first to callers with another
 * key, so that many callers with one key do not delay the others. The queue of each key is bounded.
 */
export class Semaphore {
  #free: number
  readonly #queueMax: number
  /** One function per waiting caller, oldest first, with its key. Calling the function gives the caller a permit. */
  readonly #queue = new Map<() => void, string>()
  /** The key of the last caller that got a permit. */
  #lastKey = ''

  /** At most `queueMax` callers with the same key wait. */
  constructor(permits: number, queueMax: number) {
    this.#free = permits
    this.#queueMax = queueMax
  }

  /**
   * Resolves to true when the caller has a permit, which it must release; to false if the queue is full. Rejects with
   * the reason of `signal` when the caller gives up.
   */
  async acquire(signal?: AbortSignal, key = ''): Promise<boolean> {
    signal?.throwIfAborted()
    if (this.#free > 0) {
      this.#free -= 1
      this.#lastKey = key
      return true
    }
    const waiting = [...this.#queue.values()].filter((each) => each === key)
    if (waiting.length >= this.#queueMax) return false
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const onAbort = () => {
      if (this.#queue.delete(resolve)) reject(signal?.reason)
    }
    this.#queue.set(resolve, key)
    signal?.addEventListener('abort', onAbort, { once: true })
    await promise.finally(() => signal?.removeEventListener('abort', onAbort))
    return true
  }

  /** Returns a permit, which the next caller gets. */
  release(): void {
    const waiting = [...this.#queue]
    const next = waiting.find(([, key]) => key !== this.#lastKey) ?? waiting[0]
    if (next === undefined) {
      this.#free += 1
      return
    }
    const [resolve, key] = next
    this.#lastKey = key
    this.#queue.delete(resolve)
    resolve()
  }
}
