import { setTimeout as sleep } from 'node:timers/promises'
import { isTransient } from './errors.ts'

const TRIES_MAX = 8
const TOTAL_MS_MAX = 5_000
const FIRST_DELAY_MS = 20
const DELAY_MS_MAX = 1_000

/** The pauses between the attempts of one operation. */
export class Attempts {
  #failures = 0
  #firstFailureMs = 0

  /** Waits before the next attempt. Rethrows `error` if it is not transient, or after too many attempts. */
  async after(error: unknown): Promise<void> {
    const now = performance.now()
    if (this.#failures === 0) this.#firstFailureMs = now
    this.#failures += 1
    const isOver = this.#failures === TRIES_MAX || now - this.#firstFailureMs >= TOTAL_MS_MAX
    if (isOver || !isTransient(error)) throw error
    const delay = Math.min(DELAY_MS_MAX, FIRST_DELAY_MS * 2 ** this.#failures)
    // The delay is random, so that several processes do not try again at the same time.
    await sleep(delay * (0.5 + Math.random() / 2))
  }
}

/** Runs `work`, and repeats it after transient failures, so `work` must be harmless to repeat. */
export async function retrying<Result>(work: () => Promise<Result>): Promise<Result> {
  const attempts = new Attempts()
  for (;;) {
    try {
      return await work()
    } catch (error) {
      await attempts.after(error)
    }
  }
}
