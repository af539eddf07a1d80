import { ColorSet, colorCode } from './color-set.ts'
import { Bins, varianceCut } from './variance-cut.ts'

/**
 * Colours of one workbook at most: with more than 65,430 cell formats or fills Excel “repairs” the
 * picture away; two fills and one format are reserved.
 */
export const COLORS_MAX = 65_428

/** The colours of a workbook, and which of them paints a pixel. */
export interface Palette {
  /** 0xRRGGBB each, all different, 1..COLORS_MAX of them. */
  readonly colors: Uint32Array
  /** Different colours among the pixels, before any were merged. */
  readonly distinct: number
  readonly set: ColorSet
  /** The index in `colors` by the number that `set` gives. */
  readonly colorOf: Uint16Array
}

/**
 * How far apart the values of one bin may lie per channel, finest first; a bin is painted within
 * half its width of each of its members. The last level has 37 × 43 × 37 bins, which always fit.
 */
const WIDTHS: readonly (readonly [number, number, number])[] = [
  [1, 1, 2],
  [2, 1, 2],
  [2, 2, 2],
  [2, 2, 3],
  [3, 2, 3],
  [3, 3, 3],
  [3, 3, 4],
  [4, 3, 4],
  [4, 4, 4],
  [4, 4, 5],
  [5, 4, 5],
  [5, 5, 5],
  [5, 5, 6],
  [6, 5, 6],
  [6, 6, 6],
  [6, 6, 7],
  [7, 6, 7],
]

/**
 * The palette of a picture: exact when its colours fit, else the finest bins that do.
 *
 * `rgb` holds three bytes per cell; `colorsMax` is 1..COLORS_MAX. Without a smaller wish than
 * COLORS_MAX no channel of any cell is off by more than 3 of 255. With one, the bins are further
 * merged by `varianceCut`.
 * Source: docs/decisions/0021-colours.md.
 */
export function paletteOf(rgb: Uint8Array, colorsMax: number): Palette {
  const exact = new ColorSet(colorCode([1, 1, 1]))
  for (let at = 0; at < rgb.length; at += 3) {
    exact.addPixel(rgb, at)
  }
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
  const { mean, weight } = meansOf(set, rgb)
  const paint =
    set.size <= colorsMax
      ? paintOf(set, exact, mean)
      : varianceCut(new Bins(mean, weight), colorsMax)
  return { ...withoutRepeats(paint), distinct, set }
}

/** The colours themselves when they fit, else the first level of WIDTHS at which the bins do. */
function finestBins(exact: ColorSet): ColorSet {
  let set = exact
  for (const widths of WIDTHS) {
    if (set.size <= COLORS_MAX) break
    set = new ColorSet(colorCode(widths))
    const bins = set
    exact.visit((color) => {
      bins.add(color >>> 16, (color >>> 8) & 255, color & 255)
      return bins.size <= COLORS_MAX
    })
  }
  return set
}

/** Of each bin the mean of its pixels, three channels, and how many these are. */
function meansOf(set: ColorSet, rgb: Uint8Array): { mean: Float64Array; weight: Uint32Array } {
  const mean = new Float64Array(set.size * 3)
  const weight = new Uint32Array(set.size)
  for (let at = 0; at < rgb.length; at += 3) {
    const red = rgb[at] ?? 0
    const green = rgb[at + 1] ?? 0
    const blue = rgb[at + 2] ?? 0
    const bin = set.indexOf(red, green, blue)
    weight[bin] = (weight[bin] ?? 0) + 1
    mean[bin * 3] = (mean[bin * 3] ?? 0) + red
    mean[bin * 3 + 1] = (mean[bin * 3 + 1] ?? 0) + green
    mean[bin * 3 + 2] = (mean[bin * 3 + 2] ?? 0) + blue
  }
  for (let at = 0; at < mean.length; at += 1) {
    mean[at] = (mean[at] ?? 0) / (weight[Math.trunc(at / 3)] ?? 1)
  }
  return { mean, weight }
}

/** 0xRRGGBB per bin: the mean, held within half a bin's width of its farthest member. */
function paintOf(set: ColorSet, exact: ColorSet, mean: Float64Array): Uint32Array {
  const least = new Uint8Array(mean.length).fill(255)
  const most = new Uint8Array(mean.length)
  const note = (at: number, value: number) => {
    if (value < (least[at] ?? 0)) least[at] = value
    if (value > (most[at] ?? 0)) most[at] = value
  }
  exact.visit((color) => {
    const [red, green, blue] = [color >>> 16, (color >>> 8) & 255, color & 255]
    const bin = set.indexOf(red, green, blue) * 3
    note(bin, red)
    note(bin + 1, green)
    note(bin + 2, blue)
    return true
  })
  const paint = new Uint32Array(set.size)
  for (let at = 0; at < mean.length; at += 1) {
    const [low, high] = [least[at] ?? 0, most[at] ?? 0]
    const reach = Math.ceil((high - low) / 2)
    const value = Math.min(low + reach, Math.max(high - reach, Math.round(mean[at] ?? 0)))
    const bin = Math.trunc(at / 3)
    paint[bin] = ((paint[bin] ?? 0) << 8) | value
  }
  return paint
}

/** Bins that came to be painted alike share one colour. */
function withoutRepeats(paint: Uint32Array): Pick<Palette, 'colors' | 'colorOf'> {
  const colors = Uint32Array.from(new Set(paint)).sort()
  const index = new Map(Array.from(colors, (color, at) => [color, at]))
  return { colors, colorOf: Uint16Array.from(paint, (color) => index.get(color) ?? 0) }
}

/** Replaces every pixel by the colour that paints it. */
export function repaint(rgb: Uint8Array, { colors, set, colorOf }: Palette): void {
  for (let at = 0; at < rgb.length; at += 3) {
    const index = set.indexOfPixel(rgb, at)
    const color = colors[colorOf[index] ?? 0] ?? 0
    rgb[at] = color >>> 16
    rgb[at + 1] = (color >>> 8) & 255
    rgb[at + 2] = color & 255
  }
}
