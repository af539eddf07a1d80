/** What is to be merged: three channels for each bin, and its pixels. */
export class Bins {
  readonly #mean: Float64Array
  readonly #weight: Uint32Array

  constructor(mean: Float64Array, weight: Uint32Array) {
    this.#mean = mean
    this.#weight = weight
  }

  /** How many there are. */
  get size(): number {
    return this.#weight.length
  }

  /** The mean of a channel: 0 red, 1 green, 2 blue. */
  mean(bin: number, channel: number): number {
    return this.#mean[bin * 3 + channel] ?? 0
  }

  /** How many pixels fall into it. */
  pixels(bin: number): number {
    return this.#weight[bin] ?? 0
  }
}

/** Some of the bins: a stretch of `order`, and how far its members are from their mean in all. */
interface Box {
  readonly from: number
  readonly to: number
  /** Weighted squared distance of the members from their mean, all channels. */
  readonly error: number
  /** The channel along which they differ most. */
  readonly axis: number
}

/**
 * Merges bins into at most `colorsMax` colours, where it costs least: the box of bins with the
 * greatest squared error is cut in two, at the place that leaves the least error, until there are
 * enough boxes; every box is painted with its mean.
 *
 * Returns one 0xRRGGBB per bin. Bins must differ in the whole part of a channel, or they cannot be told
 * apart.
 * Source: X. Wu, “Efficient statistical computations for optimal color quantization”, 1991, with
 * the bins themselves in place of a coarser grid.
 */
export function varianceCut(bins: Bins, colorsMax: number): Uint32Array {
  const order = Uint32Array.from({ length: bins.size }, (_, bin) => bin)
  const heap = new BoxHeap()
  heap.push(boxOf(order, bins, 0, order.length))
  while (heap.size < colorsMax) {
    const box = heap.pop()
    if (box === undefined) break
    const middle = box.error > 0 ? cut(order, bins, box) : box.to
    if (middle === box.to) {
      heap.push(box)
      break
    }
    heap.push(boxOf(order, bins, box.from, middle))
    heap.push(boxOf(order, bins, middle, box.to))
  }
  const paint = new Uint32Array(bins.size)
  for (const { from, to } of heap.boxes) {
    const members = order.subarray(from, to)
    const color = meanColor(members, bins)
    for (const bin of members) paint[bin] = color
  }
  return paint
}

function boxOf(order: Uint32Array, bins: Bins, from: number, to: number): Box {
  const sum = new Float64Array(3)
  const square = new Float64Array(3)
  let total = 0
  for (const bin of order.subarray(from, to)) {
    const pixels = bins.pixels(bin)
    total += pixels
    for (let channel = 0; channel < 3; channel += 1) {
      const value = bins.mean(bin, channel)
      add(sum, channel, pixels * value)
      add(square, channel, pixels * value * value)
    }
  }
  let [error, greatest, axis] = [0, -1, 0]
  for (const [channel, squares] of square.entries()) {
    const all = sum[channel] ?? 0
    const here = Math.max(0, squares - (all * all) / total)
    error += here
    if (here <= greatest) continue
    greatest = here
    axis = channel
  }
  // A box of one cannot be cut; rounding must not say that it can.
  return { from, to, error: to - from === 1 ? 0 : error, axis }
}

function add(sums: Float64Array, at: number, value: number): void {
  sums[at] = (sums[at] ?? 0) + value
}

/** Parts `box` in `order` and returns where its second half starts; `box.to` when it cannot be. */
function cut(order: Uint32Array, bins: Bins, box: Box): number {
  const members = order.slice(box.from, box.to)
  const level = (bin: number) => Math.trunc(bins.mean(bin, box.axis))
  const pixels = new Float64Array(256)
  const sum = new Float64Array(256)
  for (const bin of members) {
    const at = level(bin)
    add(pixels, at, bins.pixels(bin))
    add(sum, at, bins.pixels(bin) * bins.mean(bin, box.axis))
  }
  const last = bestLevel(pixels, sum)
  let low = box.from
  let high = box.to
  for (const bin of members) {
    if (level(bin) <= last) {
      order[low] = bin
      low += 1
    } else {
      high -= 1
      order[high] = bin
    }
  }
  return low
}

/** The last level of the first half, so that both halves lie as near their means as can be. */
function bestLevel(pixels: Float64Array, sum: Float64Array): number {
  const allPixels = pixels.reduce((all, one) => all + one, 0)
  const all = sum.reduce((total, one) => total + one, 0)
  let best = 255
  let bestGain = -1
  let lowPixels = 0
  let low = 0
  for (const [at, pixelsHere] of pixels.entries()) {
    lowPixels += pixelsHere
    low += sum[at] ?? 0
    if (lowPixels === 0 || lowPixels === allPixels) continue
    const gain = (low * low) / lowPixels + ((all - low) * (all - low)) / (allPixels - lowPixels)
    if (gain > bestGain) {
      bestGain = gain
      best = at
    }
  }
  return best
}

function meanColor(members: Uint32Array, bins: Bins): number {
  let color = 0
  for (let channel = 0; channel < 3; channel += 1) {
    let sum = 0
    let pixels = 0
    for (const bin of members) {
      sum += bins.pixels(bin) * bins.mean(bin, channel)
      pixels += bins.pixels(bin)
    }
    color = (color << 8) | Math.round(sum / pixels)
  }
  return color
}

/** Boxes with the greatest error on top: a binary heap in an array. */
class BoxHeap {
  readonly boxes: Box[] = []

  get size(): number {
    return this.boxes.length
  }

  push(box: Box): void {
    let at = this.boxes.length
    while (at > 0) {
      const above = (at - 1) >> 1
      const parent = this.boxes[above]
      if (parent === undefined || parent.error >= box.error) break
      this.boxes[at] = parent
      at = above
    }
    this.boxes[at] = box
  }

  pop(): Box | undefined {
    const top = this.boxes[0]
    const last = this.boxes.pop()
    if (last === undefined || this.boxes.length === 0) return top
    let at = 0
    for (;;) {
      const left = at * 2 + 1
      const right = left + 1
      const errorAt = (child: number) => this.boxes[child]?.error ?? -1
      const child = errorAt(right) > errorAt(left) ? right : left
      const lower = this.boxes[child]
      if (lower === undefined || lower.error <= last.error) break
      this.boxes[at] = lower
      at = child
    }
    this.boxes[at] = last
    return top
  }
}
