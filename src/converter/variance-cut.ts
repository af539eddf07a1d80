export interface Bins {
  /** Mean red, green and blue of each bin. */
  readonly mean: Float64Array
  /** Number of pixels of each bin. */
  readonly pixels: Uint32Array
}

/** A group of bins: the indexes from `from` to `to` (excluded) of `order`. */
interface Box {
  readonly from: number
  readonly to: number
  /** Weighted squared distance of the bins from their mean, over all channels. */
  readonly error: number
  /** Channel with the greatest error. */
  readonly axis: number
}

/**
 * Merges bins into at most `colorsMax` colours. Returns for each bin the mean colour of its box as 0xRRGGBB.
 *
 * Starts with one box of all bins. Repeatedly cuts the box with the greatest squared error at the position that leaves
 * the least error. Never separates bins whose channels have equal integer parts. Source: X. Wu, “Efficient
 * statistical computations for optimal color quantization”, 1991, with bins instead of a coarser grid.
 */
export function varianceCut(bins: Bins, colorsMax: number): Uint32Array {
  const order = Uint32Array.from(bins.pixels.keys())
  const heap = new BoxHeap()
  heap.push(createBox(order, bins, 0, order.length))
  while (heap.boxes.length < colorsMax) {
    const box = heap.pop()
    if (box === undefined) break
    const middle = box.error > 0 ? cut(order, bins, box) : box.to
    if (middle === box.to) {
      // Its bins differ by less than 1, so the other boxes are cut.
      heap.push({ ...box, error: 0 })
      if (box.error === 0) break
      continue
    }
    heap.push(createBox(order, bins, box.from, middle))
    heap.push(createBox(order, bins, middle, box.to))
  }
  const paint = new Uint32Array(order.length)
  for (const { from, to } of heap.boxes) {
    const members = order.subarray(from, to)
    const color = meanColor(members, bins)
    for (const bin of members) paint[bin] = color
  }
  return paint
}

function createBox(order: Uint32Array, bins: Bins, from: number, to: number): Box {
  const sum = new Float64Array(3)
  const square = new Float64Array(3)
  let total = 0
  for (const bin of order.subarray(from, to)) {
    const pixels = bins.pixels[bin] ?? 0
    total += pixels
    for (let channel = 0; channel < 3; channel += 1) {
      const value = bins.mean[bin * 3 + channel] ?? 0
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
  // The error of a single bin is exactly 0, so that a rounding error cannot select this box, which cannot be cut.
  return { from, to, error: to - from === 1 ? 0 : error, axis }
}

function add(sums: Float64Array, at: number, value: number): void {
  sums[at] = (sums[at] ?? 0) + value
}

/** Partitions a box in `order`. Returns the start of the second part, or `to` if the box cannot be cut. */
function cut(order: Uint32Array, bins: Bins, { from, to, axis }: Box): number {
  const members = order.slice(from, to)
  const mean = (bin: number) => bins.mean[bin * 3 + axis] ?? 0
  const pixels = new Float64Array(256)
  const sum = new Float64Array(256)
  for (const bin of members) {
    const level = Math.trunc(mean(bin))
    const count = bins.pixels[bin] ?? 0
    add(pixels, level, count)
    add(sum, level, count * mean(bin))
  }
  const last = bestLevel(pixels, sum)
  let [low, high] = [from, to]
  for (const bin of members) {
    if (Math.trunc(mean(bin)) <= last) {
      order[low] = bin
      low += 1
    } else {
      high -= 1
      order[high] = bin
    }
  }
  return low
}

/** Returns the level at which a cut leaves the least error. Bins up to this level go to the first part. */
function bestLevel(pixels: Float64Array, sum: Float64Array): number {
  const allPixels = pixels.reduce((all, one) => all + one, 0)
  const all = sum.reduce((total, one) => total + one, 0)
  let [best, bestGain, lowPixels, low] = [255, -1, 0, 0]
  for (const [level, pixelsHere] of pixels.entries()) {
    lowPixels += pixelsHere
    low += sum[level] ?? 0
    if (lowPixels === 0 || lowPixels === allPixels) continue
    const gain = (low * low) / lowPixels + ((all - low) * (all - low)) / (allPixels - lowPixels)
    if (gain > bestGain) {
      bestGain = gain
      best = level
    }
  }
  return best
}

function meanColor(members: Uint32Array, bins: Bins): number {
  let color = 0
  for (let channel = 0; channel < 3; channel += 1) {
    let [sum, pixels] = [0, 0]
    for (const bin of members) {
      const count = bins.pixels[bin] ?? 0
      sum += count * (bins.mean[bin * 3 + channel] ?? 0)
      pixels += count
    }
    color = (color << 8) | Math.round(sum / pixels)
  }
  return color
}

/** A binary heap with the greatest error on top. */
class BoxHeap {
  readonly boxes: Box[] = []

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
      const errorAt = (child: number) => this.boxes[child]?.error ?? -1
      const child = errorAt(left + 1) > errorAt(left) ? left + 1 : left
      const lower = this.boxes[child]
      if (lower === undefined || lower.error <= last.error) break
      this.boxes[at] = lower
      at = child
    }
    this.boxes[at] = last
    return top
  }
}
