import type { Operations } from '../../client/index.ts'

export type ActivityReply = Operations['GET /api/config/activity']['reply']

/** Width of a bar of the chart, minutes. */
const BAR_MINUTES = 10
/** Number of bars in 24 hours: 24 × 60 / BAR_MINUTES. */
const BARS = 144
const BAR_MS = BAR_MINUTES * 60_000

/** Values for a chart of the last 24 hours, oldest first. */
export interface ActivityChart {
  /** Start of the first bar, milliseconds since the Unix epoch. */
  readonly from: number
  readonly to: number
  /** Average number of entries per minute for each bar, or null for a bar before the start of the node. */
  readonly rates: readonly (number | null)[]
  /** Size of the store in bytes at the end of each bar, or null if the size is unknown. */
  readonly sizes: readonly (number | null)[]
  readonly entries: number
  readonly blocks: number
}

/** Returns the values of the 144 bars that end now. */
export function chartOf({ since, now, minutes, store_bytes }: ActivityReply): ActivityChart {
  const to = Math.ceil((now + 1) / BAR_MS) * BAR_MS
  const from = to - BARS * BAR_MS
  const barOf = (time: number) => Math.floor((time - from) / BAR_MS)
  const counts = new Map<number, number>()
  const known = new Map<number, number>()
  for (const { time, entries, store_bytes: bytes } of minutes) {
    const bar = barOf(time)
    counts.set(bar, (counts.get(bar) ?? 0) + entries)
    // The size in the first block of a bar is the size of the store at the end of the previous bar.
    if (bytes !== null && !known.has(bar - 1)) known.set(bar - 1, bytes)
  }
  known.set(BARS - 1, store_bytes)
  const first = Math.max(0, barOf(since))
  const rates = Array.from({ length: BARS }, (_, bar) =>
    bar < first ? null : (counts.get(bar) ?? 0) / BAR_MINUTES,
  )
  const sum = (of: 'entries' | 'blocks') => minutes.reduce((total, one) => total + one[of], 0)
  return {
    from,
    to,
    rates,
    sizes: sizesOf(known, first),
    entries: sum('entries'),
    blocks: sum('blocks'),
  }
}

/** Fills bars without a size with the next size in `known`, because the size changes only when a block is added. */
function sizesOf(known: ReadonlyMap<number, number>, first: number): readonly (number | null)[] {
  const sizes: (number | null)[] = []
  let next: number | null = null
  for (let bar = BARS - 1; bar >= 0; bar -= 1) {
    next = known.get(bar) ?? next
    sizes.push(bar < first ? null : next)
  }
  return sizes.reverse()
}
