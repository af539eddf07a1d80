import { randomUUID } from 'node:crypto'

export class UuidGenerator {
  #lastMs = 0
  #counter = 0

  /**
   * Returns a new UUID of version 7 (RFC 9562), in lower case, for the time `nowMs` in milliseconds since the Unix
   * epoch. The UUIDs of one generator sort in the order of the calls, even within a millisecond and if the clock goes
   * back. The 12 bits after the version are a counter (RFC 9562 section 6.2, method 1), which starts at a random value
   * in each millisecond. When the counter overflows, the generator continues with the next millisecond.
   */
  next(nowMs: number): string {
    // A version 4 UUID has its variant and 62 random bits where a version 7 UUID needs them.
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
