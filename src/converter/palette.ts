import { type Bins, varianceCut } from './variance-cut.ts'

/**
 * Maximum colours of a workbook: 65,430 fills, of which two are reserved. Excel “repairs” a file with more
 * than 65,430 fills or cell formats, and the picture is lost.
 */
export const COLORS_MAX = 65_428

/** The colours of a workbook, and the colour of each pixel. */
export interface Palette {
  /** 1 to COLORS_MAX different colours, 0xRRGGBB. */
  readonly colors: Uint32Array
  /** Number of different colours among the pixels. */
  readonly distinct: number
  /** Maps a pixel to the number of its bin. */
  readonly set: ColorSet
  /** Maps the number of a bin to an index in `colors`. */
  readonly colorOf: Uint16Array
}

/**
 * Creates the palette of a picture with three bytes per cell. The palette has the exact colours if there are at most
 * `colorsMax` (at least 1). Otherwise similar colours share a bin, and the bins are as small as COLORS_MAX allows, so
 * that no channel deviates by more than 3 of 255. If there are more than `colorsMax` bins, `varianceCut` merges them
 * further. Source: decision 0010.
 */
export function createPalette(rgb: Uint8Array, colorsMax: number): Palette {
  const exact = new ColorSet([1, 1, 1])
  for (let at = 0; at < rgb.length; at += 3) exact.addPixel(rgb, at)
  const distinct = exact.size
  if (distinct <= colorsMax) {
    exact.seal()
    const colors = new Uint32Array(distinct)
    let next = 0
    exact.visit((color) => {
      colors[next] = color
      next += 1
      return true
    })
    return { colors, distinct, set: exact, colorOf: Uint16Array.from(colors.keys()) }
  }
  const set = finestBins(exact)
  set.seal()
  const bins = createBins(set, rgb)
  const paint =
    set.size <= colorsMax ? computePaint(set, exact, bins.mean) : varianceCut(bins, colorsMax)
  return { ...withoutRepeats(paint), distinct, set }
}

/**
 * Returns `exact` if it has at most COLORS_MAX members, otherwise the smallest bins of which at most COLORS_MAX are
 * used. Widens the bins by one value at a time, first in blue, then in red, then in green, from [1, 1, 2] to at most
 * [7, 6, 7], because 37 × 43 × 37 = 58,867 bins always fit.
 */
function finestBins(exact: ColorSet): ColorSet {
  let set = exact
  for (let step = 1; set.size > COLORS_MAX; step += 1) {
    const [red, green, blue] = [(step + 1) / 3, step / 3, (step + 2) / 3].map(Math.trunc)
    const bins = new ColorSet([1 + (red ?? 0), 1 + (green ?? 0), 1 + (blue ?? 0)])
    exact.visit((color) => {
      bins.add(color >>> 16, (color >>> 8) & 255, color & 255)
      return bins.size <= COLORS_MAX
    })
    set = bins
  }
  return set
}

function createBins(set: ColorSet, rgb: Uint8Array): Bins {
  const mean = new Float64Array(set.size * 3)
  const pixels = new Uint32Array(set.size)
  for (let at = 0; at < rgb.length; at += 3) {
    const bin = set.indexForPixel(rgb, at)
    pixels[bin] = (pixels[bin] ?? 0) + 1
    mean[bin * 3] = (mean[bin * 3] ?? 0) + (rgb[at] ?? 0)
    mean[bin * 3 + 1] = (mean[bin * 3 + 1] ?? 0) + (rgb[at + 1] ?? 0)
    mean[bin * 3 + 2] = (mean[bin * 3 + 2] ?? 0) + (rgb[at + 2] ?? 0)
  }
  for (let at = 0; at < mean.length; at += 1) {
    mean[at] = (mean[at] ?? 0) / (pixels[Math.trunc(at / 3)] ?? 1)
  }
  return { mean, pixels }
}

/**
 * Returns the colour of each bin as 0xRRGGBB: in each channel the mean, limited so that no member of the bin differs
 * by more than half the range of its values.
 */
function computePaint(set: ColorSet, exact: ColorSet, mean: Float64Array): Uint32Array {
  const min = new Uint8Array(mean.length).fill(255)
  const max = new Uint8Array(mean.length)
  const note = (at: number, value: number) => {
    if (value < (min[at] ?? 0)) min[at] = value
    if (value > (max[at] ?? 0)) max[at] = value
  }
  exact.visit((color) => {
    const [red, green, blue] = [color >>> 16, (color >>> 8) & 255, color & 255]
    const bin = set.indexFor(red, green, blue) * 3
    note(bin, red)
    note(bin + 1, green)
    note(bin + 2, blue)
    return true
  })
  const paint = new Uint32Array(set.size)
  for (let at = 0; at < mean.length; at += 1) {
    const [low, high] = [min[at] ?? 0, max[at] ?? 0]
    const reach = Math.ceil((high - low) / 2)
    const value = Math.min(low + reach, Math.max(high - reach, Math.round(mean[at] ?? 0)))
    const bin = Math.trunc(at / 3)
    paint[bin] = ((paint[bin] ?? 0) << 8) | value
  }
  return paint
}

/** Returns the different colours of the bins, and the index of each bin's colour. */
function withoutRepeats(paint: Uint32Array): Pick<Palette, 'colors' | 'colorOf'> {
  const colors = Uint32Array.from(new Set(paint)).sort()
  const index = new Map(Array.from(colors, (color, at) => [color, at]))
  return { colors, colorOf: Uint16Array.from(paint, (color) => index.get(color) ?? 0) }
}

/** Replaces each pixel with its colour in the palette. */
export function repaint(rgb: Uint8Array, { colors, set, colorOf }: Palette): void {
  for (let at = 0; at < rgb.length; at += 3) {
    const color = colors[colorOf[set.indexForPixel(rgb, at)] ?? 0] ?? 0
    rgb[at] = color >>> 16
    rgb[at + 1] = (color >>> 8) & 255
    rgb[at + 2] = color & 255
  }
}

/**
 * A set of colours. After `seal`, the members are numbered 0, 1, 2 … in the order of their codes.
 *
 * The code of a colour is the sum of one table entry per channel. The set stores one bit per code, and the number of
 * members before each 32-bit word. This takes at most 4 MB, which fits into the CPU cache, unlike a table of 2^24
 * numbers.
 */
class ColorSet {
  readonly #red: Uint32Array
  readonly #green: Uint32Array
  readonly #blue: Uint32Array
  readonly #bits: Uint32Array
  readonly #before: Uint32Array
  #size = 0

  /** `widths`: number of adjacent values of each channel that share a code. [1, 1, 1] distinguishes all colours. */
  constructor(widths: readonly [number, number, number]) {
    const [red, green, blue] = widths
    const [reds, greens, blues] = [countCodes(red), countCodes(green), countCodes(blue)]
    const table = (width: number, step: number) =>
      Uint32Array.from({ length: 256 }, (_, value) => Math.floor(value / width) * step)
    this.#red = table(red, greens * blues)
    this.#green = table(green, blues)
    this.#blue = table(blue, 1)
    const words = (reds * greens * blues + 31) >>> 5
    this.#bits = new Uint32Array(words)
    this.#before = new Uint32Array(words)
  }

  get size(): number {
    return this.#size
  }

  add(red: number, green: number, blue: number): void {
    this.#add(this.#encode(red, green, blue))
  }

  addPixel(rgb: Uint8Array, offset: number): void {
    this.#add(this.#encodePixel(rgb, offset))
  }

  #add(at: number): void {
    const word = at >>> 5
    const old = this.#bits[word] ?? 0
    const bit = 1 << (at & 31)
    if ((old & bit) !== 0) return
    this.#bits[word] = old | bit
    this.#size += 1
  }

  /** Numbers the members. Must be called after the last `add` and before the first `indexFor`. */
  seal(): void {
    let count = 0
    for (let word = 0; word < this.#bits.length; word += 1) {
      this.#before[word] = count
      count += bitCount(this.#bits[word] ?? 0)
    }
  }

  /** Returns the number of a member. */
  indexFor(red: number, green: number, blue: number): number {
    return this.#rank(this.#encode(red, green, blue))
  }

  /** Returns the number of the colour of the pixel at `offset` of `rgb`. */
  indexForPixel(rgb: Uint8Array, offset: number): number {
    return this.#rank(this.#encodePixel(rgb, offset))
  }

  #rank(at: number): number {
    const word = at >>> 5
    const lower = (this.#bits[word] ?? 0) & ((1 << (at & 31)) - 1)
    return (this.#before[word] ?? 0) + bitCount(lower)
  }

  /** Calls `visitor` with the code of each member, in order, until it returns false. */
  visit(visitor: (code: number) => boolean): void {
    for (let word = 0; word < this.#bits.length; word += 1) {
      let bits = this.#bits[word] ?? 0
      while (bits !== 0) {
        if (!visitor((word << 5) + 31 - Math.clz32(bits & -bits))) return
        bits &= bits - 1
      }
    }
  }

  #encode(red: number, green: number, blue: number): number {
    return (this.#red[red] ?? 0) + (this.#green[green] ?? 0) + (this.#blue[blue] ?? 0)
  }

  #encodePixel(rgb: Uint8Array, offset: number): number {
    return this.#encode(rgb[offset] ?? 0, rgb[offset + 1] ?? 0, rgb[offset + 2] ?? 0)
  }
}

/** Returns the number of codes of a channel in which `width` adjacent values share a code. */
function countCodes(width: number): number {
  return Math.ceil(256 / width)
}

function bitCount(word: number): number {
  const pairs = word - ((word >>> 1) & 0x5555_5555)
  const nibbles = (pairs & 0x3333_3333) + ((pairs >>> 2) & 0x3333_3333)
  return Math.imul((nibbles + (nibbles >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24
}
