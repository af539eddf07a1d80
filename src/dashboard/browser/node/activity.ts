import type { Operations } from '../../../client/index.ts'

export type ActivityReply = Operations['GET /api/config/activity']['reply']

/** Width of a bar of the chart, minutes. */
const BAR_MINUTES = 10
/** Maximum number of bars: 24 hours. */
const BARS_MAX = 144
const BAR_MS = BAR_MINUTES * 60_000

/** Values for a chart of the last 24 hours, or of the time since the start of the node, oldest first. */
export interface ActivityChart {
  /** Start of the first bar, milliseconds since the Unix epoch. */
  readonly from: number
  readonly to: number
  /** Average number of entries per minute for each bar. */
  readonly rates: readonly number[]
  /** Size of the store in bytes at the end of each bar. */
  readonly sizes: readonly number[]
  readonly entries: number
  readonly blocks: number
}

/** Returns the values of the bars that end now. The first bar contains the start of the node if that is recent. */
export function chartOf({ since, now, minutes, store_bytes }: ActivityReply): ActivityChart {
  const to = Math.ceil((now + 1) / BAR_MS) * BAR_MS
  // At least one bar, even if the clock was set back before the start of the node.
  const age = Math.ceil((to - since) / BAR_MS)
  const bars = Math.min(Math.max(age, 1), BARS_MAX)
  const from = to - bars * BAR_MS
  const barOf = (time: number) => Math.floor((time - from) / BAR_MS)
  const counts = new Map<number, number>()
  const known = new Map<number, number>()
  for (const { time, entries, store_bytes: bytes } of minutes) {
    const bar = barOf(time)
    counts.set(bar, (counts.get(bar) ?? 0) + entries)
    // The size in the first block of a bar is the size of the store at the end of the previous bar.
    if (bytes !== null && !known.has(bar - 1)) known.set(bar - 1, bytes)
  }
  const rates = Array.from({ length: bars }, (_, bar) => (counts.get(bar) ?? 0) / BAR_MINUTES)
  const sum = (of: 'entries' | 'blocks') => minutes.reduce((total, one) => total + one[of], 0)
  return {
    from,
    to,
    rates,
    sizes: sizesOf(known, bars, store_bytes),
    entries: sum('entries'),
    blocks: sum('blocks'),
  }
}

/** Fills bars without a size with the next size in `known`, because the size changes only when a block is added. */
function sizesOf(
  known: ReadonlyMap<number, number>,
  bars: number,
  current: number,
): readonly number[] {
  const sizes = [current]
  for (let bar = bars - 2; bar >= 0; bar -= 1) {
    sizes.push(known.get(bar) ?? sizes.at(-1) ?? current)
  }
  return sizes.reverse()
}
