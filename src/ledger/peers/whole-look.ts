/** All contents of a chain are looked for anew after this, at the soonest and at the latest. */
const REST_MS = 60_000
const REST_MS_MAX = 3_600_000
/** Of the time, looking takes no more than one in so many. */
const SHARE = 10

/**
 * When all contents of a chain are looked for anew, and not only those of new entries: what was there
 * may have been lost since. Times are those of one clock, milliseconds.
 */
export class WholeLook {
  #dueMs: number | null = null

  /** Whether all are to be looked for now; asking begins it. The first look is one by itself. */
  begins(nowMs: number): boolean {
    const isDue = this.#dueMs !== null && nowMs >= this.#dueMs
    // Already here: a look that breaks off is gone on with, not begun anew.
    if (isDue || this.#dueMs === null) this.#dueMs = nowMs + REST_MS
    return isDue
  }

  /** To be said of a look that took `tookMs`: a long one is followed by a long rest. */
  ended(nowMs: number, tookMs: number): void {
    const restMs = Math.min(SHARE * tookMs, REST_MS_MAX)
    this.#dueMs = Math.max(this.#dueMs ?? 0, nowMs + restMs)
  }
}
