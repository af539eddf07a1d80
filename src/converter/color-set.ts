/** Where a colour lies in a set, by channel: the sum of three table entries is its code. */
export interface ColorCode {
  readonly red: Uint32Array
  readonly green: Uint32Array
  readonly blue: Uint32Array
  /** Codes are below this. */
  readonly size: number
}

/**
 * Codes in which channel values `width` apart or nearer may share a code, each channel with a width
 * of its own: [1, 1, 1] tells all colours apart.
 */
export function colorCode(widths: readonly [number, number, number]): ColorCode {
  const [red, green, blue] = widths
  const [reds, greens, blues] = [valuesIn(red), valuesIn(green), valuesIn(blue)]
  const table = (width: number, step: number) =>
    Uint32Array.from({ length: 256 }, (_, value) => Math.floor(value / width) * step)
  return {
    red: table(red, greens * blues),
    green: table(green, blues),
    blue: table(blue, 1),
    size: reds * greens * blues,
  }
}

/** How many codes a channel has. */
function valuesIn(width: number): number {
  return Math.ceil(256 / width)
}

/**
 * A set of colours that numbers its members: 0, 1, 2 … in the order of their codes.
 *
 * One bit per possible code, and how many members lie before each word of 32: at most 2 MB and
 * 2 MB, which a processor keeps near, where a table of 2^24 numbers would not fit. `seal` must be
 * called between the last `add` and the first `indexOf`.
 */
export class ColorSet {
  readonly code: ColorCode
  readonly #bits: Uint32Array
  readonly #before: Uint32Array
  #size = 0

  constructor(code: ColorCode) {
    this.code = code
    const words = (code.size + 31) >>> 5
    this.#bits = new Uint32Array(words)
    this.#before = new Uint32Array(words)
  }

  /** How many members there are. */
  get size(): number {
    return this.#size
  }

  /** Makes the colour a member. */
  add(red: number, green: number, blue: number): void {
    this.#add(this.#codeOf(red, green, blue))
  }

  /** Makes the colour of the pixel at `offset` of `rgb` a member. */
  addPixel(rgb: Uint8Array, offset: number): void {
    this.#add(this.#codeOfPixel(rgb, offset))
  }

  #add(at: number): void {
    const word = at >>> 5
    const old = this.#bits[word] ?? 0
    const bit = 1 << (at & 31)
    if ((old & bit) !== 0) return
    this.#bits[word] = old | bit
    this.#size += 1
  }

  /** Numbers the members. */
  seal(): void {
    let count = 0
    for (let word = 0; word < this.#bits.length; word += 1) {
      this.#before[word] = count
      count += bitsIn(this.#bits[word] ?? 0)
    }
  }

  /** The number of the member that the colour falls in; meaningless when there is none. */
  indexOf(red: number, green: number, blue: number): number {
    return this.#indexOf(this.#codeOf(red, green, blue))
  }

  /** The same for the colour of the pixel at `offset` of `rgb`. */
  indexOfPixel(rgb: Uint8Array, offset: number): number {
    return this.#indexOf(this.#codeOfPixel(rgb, offset))
  }

  #indexOf(at: number): number {
    const word = at >>> 5
    const lower = (this.#bits[word] ?? 0) & ((1 << (at & 31)) - 1)
    return (this.#before[word] ?? 0) + bitsIn(lower)
  }

  /** Calls `visitor` with the code of every member, in order, until it returns false. */
  visit(visitor: (code: number) => boolean): void {
    for (let word = 0; word < this.#bits.length; word += 1) {
      let bits = this.#bits[word] ?? 0
      while (bits !== 0) {
        if (!visitor((word << 5) + 31 - Math.clz32(bits & -bits))) return
        bits &= bits - 1
      }
    }
  }

  #codeOf(red: number, green: number, blue: number): number {
    const { code } = this
    return (code.red[red] ?? 0) + (code.green[green] ?? 0) + (code.blue[blue] ?? 0)
  }

  #codeOfPixel(rgb: Uint8Array, offset: number): number {
    return this.#codeOf(rgb[offset] ?? 0, rgb[offset + 1] ?? 0, rgb[offset + 2] ?? 0)
  }
}

/** How many bits of a 32-bit word are set. */
function bitsIn(word: number): number {
  const pairs = word - ((word >>> 1) & 0x5555_5555)
  const nibbles = (pairs & 0x3333_3333) + ((pairs >>> 2) & 0x3333_3333)
  return Math.imul((nibbles + (nibbles >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24
}
