import { ConverterError } from './errors.ts'

/** Whoever waits for a seat. */
interface Waiter {
  readonly seated: () => void
}

/** A number of seats, and a bounded queue for them: first come, first seated. */
export class Seats {
  #free: number
  readonly #queueMax: number
  readonly #queueMs: number
  readonly #queue: Waiter[] = []

  /** At most `queueMax` wait, none of them longer than `queueMs` milliseconds. */
  constructor(seats: number, queueMax: number, queueMs: number) {
    this.#free = seats
    this.#queueMax = queueMax
    this.#queueMs = queueMs
  }

  /** How many wait. */
  get waiting(): number {
    return this.#queue.length
  }

  /**
   * Resolves once a seat is taken; `release` gives it back.
   * Errors: BUSY when the queue is full or does not move; the signal's reason when it aborts first.
   */
  async take(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#free > 0) {
      this.#free -= 1
      return
    }
    if (this.#queue.length >= this.#queueMax) throw busy()
    await new Promise<void>((resolve, reject) => {
      const settle = (done: () => void) => () => {
        clearTimeout(overdue)
        signal.removeEventListener('abort', giveUp)
        const at = this.#queue.indexOf(waiter)
        if (at !== -1) this.#queue.splice(at, 1)
        done()
      }
      const waiter: Waiter = { seated: settle(resolve) }
      const giveUp = settle(() => reject(signal.reason))
      const overdue = setTimeout(
        settle(() => reject(busy())),
        this.#queueMs,
      )
      signal.addEventListener('abort', giveUp, { once: true })
      this.#queue.push(waiter)
    })
  }

  /** Gives a seat to the next in the queue, or leaves it free. */
  release(): void {
    const next = this.#queue.shift()
    if (next === undefined) this.#free += 1
    else next.seated()
  }
}

function busy(): ConverterError {
  return new ConverterError('BUSY', 'too many images are being converted; try again shortly')
}
