/**
 * Sums are integers in units of 2^-SCALE. This is possible because every finite double is an integer multiple of
 * 2^-1074.
 */
const SCALE = 1_074
/**
 * Number of leading bits of a sum from which its nearest double is computed. The last of these bits is also set if any
 * lower bit of the sum is set.
 */
const ROUNDED_BITS = 64

/**
 * Adds doubles without rounding, so the order of the numbers does not matter and large numbers do not hide small
 * numbers. Only the result is rounded, to the nearest double.
 */
export class ExactSum {
  /** In units of 2^-1074. */
  #sum = 0n

  add(value: number): void {
    this.#sum += scale(value)
  }

  /** Returns the double nearest to the sum, or an infinity if the sum is beyond the range of doubles. */
  get value(): number {
    const magnitude = this.#sum < 0n ? -this.#sum : this.#sum
    const shift = Math.max(0, bitLength(magnitude) - ROUNDED_BITS)
    const upper = magnitude >> BigInt(shift)
    // Sets the last bit if any lower bit is set. Otherwise a sum just above the middle of two doubles would look like
    // the exact middle, which is rounded to even.
    const rounded = upper << BigInt(shift) === magnitude ? upper : upper | 1n
    return (this.#sum < 0n ? -1 : 1) * timesPowerOfTwo(Number(rounded), shift - SCALE)
  }
}

function bitLength(magnitude: bigint): number {
  return magnitude.toString(16).length * 4
}

const view = new DataView(new ArrayBuffer(8))

/** Returns a finite double in units of 2^-1074. */
function scale(value: number): bigint {
  view.setFloat64(0, value)
  const bits = view.getBigUint64(0)
  const exponent = Number((bits >> 52n) & 0x7ffn)
  const fraction = bits & 0xfffffffffffffn
  const magnitude = exponent === 0 ? fraction : (fraction | (1n << 52n)) << BigInt(exponent - 1)
  return value < 0 ? -magnitude : magnitude
}

/** Returns `value` × 2^`exponent`. Multiplies twice, because 2^`exponent` can be less than the smallest double. */
function timesPowerOfTwo(value: number, exponent: number): number {
  const first = Math.trunc(exponent / 2)
  return value * 2 ** first * 2 ** (exponent - first)
}
