/** Maximum time for which the clock stands still during one request, milliseconds. */
const WAITS_MS_MAX = 30_000

/** Measures the time of guests, in milliseconds. It stands still while a guest waits for a database server. */
export class GuestClock {
  /** Called with false when the clock stops, and with true when it continues. */
  onChange: (isRunning: boolean) => void = () => {}
  #waitedMs = 0
  #waits = 0
  #stoppedMs = 0
  /** The waits up to the current request, so that each request has its own maximum. */
  #earlierMs = 0

  now(): number {
    const nowMs = this.#waits > 0 ? this.#stoppedMs : performance.now()
    return nowMs - Math.min(this.#waitedMs, this.#earlierMs + WAITS_MS_MAX)
  }

  /** Must be called before each request. */
  begin(): void {
    this.#waitedMs = Math.min(this.#waitedMs, this.#earlierMs + WAITS_MS_MAX)
    this.#earlierMs = this.#waitedMs
  }

  /** Stops the clock until `wait` has ended. */
  async stopped<Result>(wait: () => Promise<Result>): Promise<Result> {
    if (this.#waits === 0) {
      this.#stoppedMs = performance.now()
      this.onChange(false)
    }
    this.#waits += 1
    try {
      return await wait()
    } finally {
      this.#waits -= 1
      if (this.#waits === 0) {
        this.#waitedMs += performance.now() - this.#stoppedMs
        this.onChange(true)
      }
    }
  }
}
