/** Gives a number of permits to callers in the order of their calls. The queue is bounded. */
export class Semaphore {
  #free: number
  readonly #queueMax: number
  /** One function per waiting caller, oldest first. Calling the function gives the caller a permit. */
  readonly #queue = new Set<() => void>()

  /** At most `queueMax` callers wait. */
  constructor(permits: number, queueMax: number) {
    this.#free = permits
    this.#queueMax = queueMax
  }

  /**
   * Resolves to true when the caller has a permit, which it must release; to false if the queue is full. Rejects with
   * the reason of `signal` when the caller gives up.
   */
  async acquire(signal?: AbortSignal): Promise<boolean> {
    signal?.throwIfAborted()
    if (this.#free > 0) {
      this.#free -= 1
      return true
    }
    if (this.#queue.size >= this.#queueMax) return false
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const onAbort = () => {
      if (this.#queue.delete(resolve)) reject(signal?.reason)
    }
    this.#queue.add(resolve)
    signal?.addEventListener('abort', onAbort, { once: true })
    await promise.finally(() => signal?.removeEventListener('abort', onAbort))
    return true
  }

  /** Returns a permit, which the oldest waiting caller gets. */
  release(): void {
    const [next] = this.#queue
    if (next === undefined) this.#free += 1
    else {
      this.#queue.delete(next)
      next()
    }
  }
}
