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
 * `mean` holds three channels per bin, `weight` its pixels. Returns one 0xRRGGBB per bin. Bins must
 * differ in the whole part of a channel, or they cannot be told apart.
 * Source: X. Wu, “Efficient statistical computations for optimal color quantization”, 1991, with
 * the bins themselves in place of a coarser grid.
 */
export function varianceCut(
  mean: Float64Array,
  weight: Uint32Array,
  colorsMax: number,
): Uint32Array {
  const order = Uint32Array.from(weight.keys())
  const heap = new BoxHeap()
  heap.push(boxOf(order, mean, weight, 0, order.length))
  while (heap.size < colorsMax) {
    const box = heap.pop()
    if (box === undefined) break
    const middle = box.error > 0 ? cut(order, mean, weight, box) : box.to
    if (middle === box.to) {
      heap.push(box)
      break
    }
    heap.push(boxOf(order, mean, weight, box.from, middle))
    heap.push(boxOf(order, mean, weight, middle, box.to))
  }
  const paint = new Uint32Array(weight.length)
  for (const { from, to } of heap.boxes) {
    const color = meanColor(order.subarray(from, to), mean, weight)
    for (let at = from; at < to; at += 1) paint[order[at] ?? 0] = color
  }
  return paint
}

function boxOf(
  order: Uint32Array,
  mean: Float64Array,
  weight: Uint32Array,
  from: number,
  to: number,
): Box {
  const sum = [0, 0, 0]
  const square = [0, 0, 0]
  let total = 0
  for (let at = from; at < to; at += 1) {
    const bin = order[at] ?? 0
    const pixels = weight[bin] ?? 0
    total += pixels
    for (let channel = 0; channel < 3; channel += 1) {
      const value = mean[bin * 3 + channel] ?? 0
      sum[channel] = (sum[channel] ?? 0) + pixels * value
      square[channel] = (square[channel] ?? 0) + pixels * value * value
    }
  }
  const errors = sum.map((s, channel) => Math.max(0, (square[channel] ?? 0) - (s * s) / total))
  // A box of one cannot be cut; rounding must not say that it can.
  const error = to - from === 1 ? 0 : errors.reduce((all, one) => all + one, 0)
  return { from, to, error, axis: errors.indexOf(Math.max(...errors)) }
}

/** Parts `box` in `order` and returns where its second half starts; `box.to` when it cannot be. */
function cut(order: Uint32Array, mean: Float64Array, weight: Uint32Array, box: Box): number {
  const members = order.slice(box.from, box.to)
  const level = (bin: number) => Math.trunc(mean[bin * 3 + box.axis] ?? 0)
  const pixels = new Float64Array(256)
  const sum = new Float64Array(256)
  for (const bin of members) {
    const at = level(bin)
    pixels[at] = (pixels[at] ?? 0) + (weight[bin] ?? 0)
    sum[at] = (sum[at] ?? 0) + (weight[bin] ?? 0) * (mean[bin * 3 + box.axis] ?? 0)
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
  for (let at = 0; at < 256; at += 1) {
    lowPixels += pixels[at] ?? 0
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

function meanColor(bins: Uint32Array, mean: Float64Array, weight: Uint32Array): number {
  let color = 0
  for (let channel = 0; channel < 3; channel += 1) {
    let sum = 0
    let pixels = 0
    for (const bin of bins) {
      sum += (weight[bin] ?? 0) * (mean[bin * 3 + channel] ?? 0)
      pixels += weight[bin] ?? 0
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
