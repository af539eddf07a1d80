/** Maximum lines in one window. */
const LINES_MAX = 200
const WINDOW_MS = 10_000

/** Limits the lines that requests cause in a log, so that an attack cannot fill the disk. */
export class LineLimit {
  #windowEndsMs = 0
  #lines = 0

  /** Returns the fields to add to the next line: how many lines were left out before it. Null if it is left out too. */
  next(): { readonly omitted?: number } | null {
    const nowMs = performance.now()
    let omitted = 0
    if (nowMs >= this.#windowEndsMs) {
      omitted = Math.max(0, this.#lines - LINES_MAX)
      this.#windowEndsMs = nowMs + WINDOW_MS
      this.#lines = 0
    }
    this.#lines += 1
    if (this.#lines > LINES_MAX) return null
    return omitted === 0 ? {} : { omitted }
  }
}
