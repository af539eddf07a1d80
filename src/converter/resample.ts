import type { Grid, Resample } from './options.ts'

/** Number of source pixels along one axis from which a result pixel is computed. */
const TAPS = 4

/**
 * Resizes an image with three bytes per pixel: `nearest` to any size, `cubic` (Catmull-Rom) to the same or a larger
 * size.
 *
 * The centre of pixel n is at n + 0.5, as in Pillow and ImageMagick. libvips is not used for enlarging, because it
 * would shift the image by half a cell.
 */
export function resample(rgb: Uint8Array, from: Grid, to: Grid, method: Resample): Uint8Array {
  if (from.columns === to.columns && from.rows === to.rows) return rgb
  const across = computeTaps(from.columns, to.columns, method)
  const down = computeTaps(from.rows, to.rows, method)
  const rowBytes = to.columns * 3
  // Uint8ClampedArray rounds and clamps to 0..255.
  const result = new Uint8ClampedArray(rowBytes * to.rows)
  const sum = new Float32Array(rowBytes)
  // A ring buffer of resized source rows: row r is at index r % TAPS.
  const resized = Array.from({ length: TAPS }, () => new Float32Array(rowBytes))
  const rowAt = new Int32Array(TAPS).fill(-1)
  for (let row = 0; row < to.rows; row += 1) {
    sum.fill(0)
    for (let tap = row * TAPS; tap < (row + 1) * TAPS; tap += 1) {
      const source = down.sources[tap] ?? 0
      const weight = down.weights[tap] ?? 0
      const values = resized[source % TAPS]
      if (weight === 0 || values === undefined) continue
      if (rowAt[source % TAPS] !== source) {
        rowAt[source % TAPS] = source
        resizeRow(rgb, source * from.columns * 3, across, values)
      }
      for (let at = 0; at < rowBytes; at += 1) sum[at] = (sum[at] ?? 0) + weight * (values[at] ?? 0)
    }
    result.set(sum, row * rowBytes)
  }
  return new Uint8Array(result.buffer)
}

/** For each result pixel along an axis: TAPS source positions and their weights. */
interface Taps {
  readonly sources: Int32Array
  readonly weights: Float32Array
}

function computeTaps(from: number, to: number, method: Resample): Taps {
  const sources = new Int32Array(to * TAPS)
  const weights = new Float32Array(to * TAPS)
  for (let at = 0; at < to; at += 1) {
    const centre = ((at + 0.5) * from) / to - 0.5
    const left = Math.floor(centre)
    const t = method === 'nearest' ? Math.round(centre - left) : centre - left
    // Source positions beyond an edge become the edge pixel.
    sources.set(
      [-1, 0, 1, 2].map((tap) => Math.min(Math.max(left + tap, 0), from - 1)),
      at * TAPS,
    )
    weights.set(catmullRom(t), at * TAPS)
  }
  return { sources, weights }
}

/** Returns the weights of the pixels at -1, 0, 1, 2 for a point at `t`, from 0 to 1. Source: Keys 1981, a = -1/2. */
function catmullRom(t: number): number[] {
  return [
    t * (t * (1 - t / 2) - 1 / 2),
    t * t * ((3 / 2) * t - 5 / 2) + 1,
    t * (t * (2 - (3 / 2) * t) + 1 / 2),
    t * t * (t / 2 - 1 / 2),
  ]
}

function resizeRow(rgb: Uint8Array, from: number, taps: Taps, into: Float32Array): void {
  for (let at = 0; at < into.length; at += 3) {
    let [red, green, blue] = [0, 0, 0]
    const end = (at / 3 + 1) * TAPS
    for (let tap = end - TAPS; tap < end; tap += 1) {
      const weight = taps.weights[tap] ?? 0
      const pixel = from + (taps.sources[tap] ?? 0) * 3
      red += weight * (rgb[pixel] ?? 0)
      green += weight * (rgb[pixel + 1] ?? 0)
      blue += weight * (rgb[pixel + 2] ?? 0)
    }
    into[at] = red
    into[at + 1] = green
    into[at + 2] = blue
  }
}
