import { expect, it } from 'vitest'
import { toChart } from '../../src/dashboard/browser/node/activity.ts'

const MINUTE = 60_000
const NOW = 1_800_000_000_000
const DAY = 24 * 60 * MINUTE

const minute = (ago: number, entries: number, bytes: number | null) => ({
  ...{ time: NOW - ago * MINUTE, blocks: 1, entries, bytes: 9, store_bytes: bytes },
})

const column = (chart: ReturnType<typeof toChart>, name: 'entries' | 'size') =>
  chart.bars.map((bar) => bar[name])

it('each bar shows what was recorded in ten minutes, and the bars together show everything', () => {
  const chart = toChart({
    ...{ since: NOW - 2 * DAY, now: NOW, store_bytes: 500 },
    minutes: [minute(1_435, 5, 100), minute(12, 20, 300), minute(11, 10, 310), minute(1, 7, 400)],
  })
  expect([chart.bars.length, chart.to - NOW]).toEqual([145, 10 * MINUTE])
  expect(column(chart, 'entries').slice(-3)).toEqual([30, 7, 0])
  expect(column(chart, 'entries')[0]).toBe(5)
  expect([chart.entries, chart.blocks]).toEqual([42, 4])
  expect(column(chart, 'size').slice(-4)).toEqual([300, 400, 500, 500])
})

it('begins at the start of the process with a bar per minute, and shows the size until now even if there were no changes', () => {
  const since = NOW - 25 * MINUTE
  const chart = toChart({ since, now: NOW, store_bytes: 5, minutes: [] })
  expect([chart.from - NOW, chart.to - NOW]).toEqual([-30 * MINUTE, 10 * MINUTE])
  expect(chart.barMinutes).toBe(1)
  expect(column(chart, 'entries')).toEqual(Array(40).fill(0))
  expect(column(chart, 'size')).toEqual([
    ...Array(5).fill(0),
    ...Array(26).fill(5),
    ...Array(9).fill(0),
  ])
})

it('the first bar begins with the process, and the last bar ends now', () => {
  const since = NOW - 204 * MINUTE
  const now = NOW + 5 * MINUTE
  const chart = toChart({
    ...{ since, now, store_bytes: 5 },
    minutes: [minute(203, 8, 5), minute(-2, 5_876, 5)],
  })
  expect([chart.barMinutes, chart.bars.length, chart.from - since]).toEqual([10, 22, -6 * MINUTE])
  expect(chart.bars[0]).toEqual({ begin: since, end: since + 4 * MINUTE, entries: 8, size: 5 })
  expect(chart.bars.at(-1)).toMatchObject({ begin: NOW, end: now, entries: 5_876 })
})

it('begins at the current time if the clock was set back before the start of the process', () => {
  const since = NOW + DAY
  const chart = toChart({ since, now: NOW, store_bytes: 5, minutes: [] })
  expect([chart.from - NOW, chart.bars.length, chart.bars[0]?.size]).toEqual([0, 10, 5])
})
