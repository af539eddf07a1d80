import { randomUUID } from 'node:crypto'

/** Makes UUIDs of version 7 (RFC 9562), lower case. */
export class UuidGenerator {
  #lastMs = 0
  #counter = 0

  /**
   * A new UUID for the time `nowMs`, milliseconds since the Unix epoch.
   *
   * UUIDs of one generator sort in the order of the calls, also within a millisecond and when the clock
   * goes back: the 12 bits after the version are a counter (RFC 9562 section 6.2, method 1), with a
   * random start in each millisecond; when it overflows, the next millisecond is used.
   */
  next(nowMs: number): string {
    // The variant and 62 random bits stand at the same place in versions 4 and 7.
    const random = randomUUID().slice(19)
    if (nowMs > this.#lastMs) {
      this.#lastMs = nowMs
      this.#counter = Number.parseInt(random.slice(1, 4), 16) & 0x7ff
    } else if (this.#counter < 0xfff) {
      this.#counter += 1
    } else {
      this.#lastMs += 1
      this.#counter = 0
    }
    const time = this.#lastMs.toString(16).padStart(12, '0')
    const counter = (0x7000 | this.#counter).toString(16)
    return `${time.slice(0, 8)}-${time.slice(8)}-${counter}-${random}`
  }
}
