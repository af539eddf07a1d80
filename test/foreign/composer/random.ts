/** A generator of random numbers with a seed. Source: mulberry32. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = Math.imul(seed, 0x9e3779b1) | 0
  }

  /** Returns an integer from 0 up to, but not including, `below`. */
  below(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return Math.trunc((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below)
  }

  /** Returns true in `percent` of 100 calls. */
  chance(percent: number): boolean {
    return this.below(100) < percent
  }

  pick<Value>(values: readonly Value[]): Value {
    const value = values[this.below(values.length)]
    if (value === undefined) throw new Error('there is nothing to pick')
    return value
  }

  /** Returns `make()` from `least` to `most` times. */
  several<Value>(least: number, most: number, make: (at: number) => Value): Value[] {
    return Array.from({ length: least + this.below(most - least + 1) }, (_, at) => make(at))
  }

  shuffled<Value>(values: readonly Value[]): Value[] {
    return values
      .map((value) => ({ value, key: this.below(1e9) }))
      .sort((one, other) => one.key - other.key)
      .map(({ value }) => value)
  }
}
