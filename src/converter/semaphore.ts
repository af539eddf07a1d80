import { ConverterError } from './errors.ts'

/** A semaphore with a bounded first-in-first-out queue. */
export class Semaphore {
  #free: number
  readonly #queueMax: number
  readonly #queueMs: number
  /** One function per waiting caller, oldest first. Calling the function gives the caller a permit. */
  readonly #queue: (() => void)[] = []

  /** At most `queueMax` callers wait, each for at most `queueMs` milliseconds. */
  constructor(permits: number, queueMax: number, queueMs: number) {
    this.#free = permits
    this.#queueMax = queueMax
    this.#queueMs = queueMs
  }

  get waiting(): number {
    return this.#queue.length
  }

  /** Resolves when the caller has a permit. Errors: BUSY if the queue is full or the wait too long; `signal.reason`. */
  async acquire(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#free > 0) {
      this.#free -= 1
      return
    }
    if (this.#queue.length >= this.#queueMax) throw busy()
    await new Promise<void>((resolve, reject) => {
      const settle = (done: () => void) => () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', onAbort)
        const at = this.#queue.indexOf(onAcquired)
        if (at !== -1) this.#queue.splice(at, 1)
        done()
      }
      const onAcquired = settle(resolve)
      const onAbort = settle(() => reject(signal.reason))
      const timer = setTimeout(
        settle(() => reject(busy())),
        this.#queueMs,
      )
      signal.addEventListener('abort', onAbort, { once: true })
      this.#queue.push(onAcquired)
    })
  }

  /** Returns a permit, which the oldest waiting caller gets. */
  release(): void {
    const next = this.#queue.shift()
    if (next === undefined) this.#free += 1
    else next()
  }
}

function busy(): ConverterError {
  return new ConverterError('BUSY', 'too many images are being converted; try again shortly')
}
