import type { Operations } from '../../../client/index.ts'

export type ActivityReply = Operations['GET /api/config/activity']['reply']

const MINUTE_MS = 60_000
/** Length of a bar of the chart; one minute if the chart has at most SHORT_MS. */
const BAR_MS = 10 * MINUTE_MS
const SHORT_MS = 2 * 60 * MINUTE_MS
const CHART_MS_MAX = 24 * 60 * MINUTE_MS

interface ActivityBar {
  /** The part of the bar in which the node has counted: not before its start, and not after the current time. */
  readonly begin: number
  readonly end: number
  readonly entries: number
  /** Size of the store in bytes at the end; 0 before the start and after the current time. */
  readonly size: number
}

/** Values for a chart of the last 24 hours, or of the time since the start of the node, oldest first. */
export interface ActivityChart {
  /** Start of the first bar, milliseconds since the Unix epoch. */
  readonly from: number
  readonly to: number
  readonly barMinutes: number
  readonly bars: readonly ActivityBar[]
  readonly entries: number
  readonly blocks: number
}

/** Returns the values of the bars until now. The first bar contains the start of the node if that is recent. */
export function toChart({ since, now, minutes, store_bytes }: ActivityReply): ActivityChart {
  const to = Math.ceil((now + 1) / BAR_MS) * BAR_MS
  // The start can be after the current time, if the clock was set back.
  const start = Math.min(since, now)
  const first = Math.max(start, now - CHART_MS_MAX)
  const from = Math.floor(first / BAR_MS) * BAR_MS
  const barMs = to - from <= SHORT_MS ? MINUTE_MS : BAR_MS
  const findBar = (time: number) => Math.floor((time - from) / barMs)
  const counts = new Map<number, number>()
  const known = new Map([[findBar(now), store_bytes]])
  for (const { time, entries, store_bytes: bytes } of minutes) {
    const bar = findBar(time)
    counts.set(bar, (counts.get(bar) ?? 0) + entries)
    // The size in the first block of a bar is the size of the store at the end of the previous bar.
    if (bytes !== null && !known.has(bar - 1)) known.set(bar - 1, bytes)
  }
  const sizes = Array.from({ length: (to - from) / barMs }, () => 0)
  // The size changes only when a block is added, so a bar without a known size has that of the next bar.
  for (let bar = findBar(now); bar >= Math.max(findBar(start), 0); bar -= 1) {
    sizes[bar] = known.get(bar) ?? sizes[bar + 1] ?? 0
  }
  const sum = (of: 'entries' | 'blocks') => minutes.reduce((total, one) => total + one[of], 0)
  const barMinutes = barMs / MINUTE_MS
  const bars = sizes.map((size, bar) => {
    const begin = from + bar * barMs
    const [counted, end] = [Math.max(begin, first), Math.min(begin + barMs, now)]
    return { begin: counted, end: Math.max(counted, end), entries: counts.get(bar) ?? 0, size }
  })
  return { from, to, barMinutes, bars, entries: sum('entries'), blocks: sum('blocks') }
}
