import { expect, it } from 'vitest'
import { chartOf } from '../../src/dashboard/browser/node/activity.ts'

const MINUTE = 60_000
const NOW = 1_800_000_000_000
const DAY = 24 * 60 * MINUTE

const minute = (ago: number, entries: number, bytes: number | null) => ({
  ...{ time: NOW - ago * MINUTE, blocks: 1, entries, bytes: 9, store_bytes: bytes },
})

it('each bar shows the average of ten minutes, and the last bar ends after the current time', () => {
  const chart = chartOf({
    ...{ status: true, since: NOW - 2 * DAY, now: NOW, store_bytes: 500 },
    minutes: [minute(1_435, 5, 100), minute(12, 20, 300), minute(11, 10, 310), minute(1, 7, 400)],
  })
  expect([chart.rates.length, chart.sizes.length]).toEqual([144, 144])
  expect([chart.to - NOW, chart.to - chart.from]).toEqual([10 * MINUTE, DAY])
  expect(chart.rates.slice(-3)).toEqual([3, 0.7, 0])
  expect(chart.rates.reduce<number>((sum, rate) => sum + (rate ?? 0) * 10, 0)).toBeCloseTo(37)
  expect([chart.entries, chart.blocks]).toEqual([42, 4])
  expect(chart.sizes.slice(-4)).toEqual([300, 400, 500, 500])
})

it('begins at the start of the process, and shows the current size even if there were no changes', () => {
  const since = NOW - 25 * MINUTE
  const chart = chartOf({ status: true, since, now: NOW, store_bytes: 5, minutes: [] })
  expect([chart.from - NOW, chart.to - NOW]).toEqual([-30 * MINUTE, 10 * MINUTE])
  expect(chart.rates).toEqual([0, 0, 0, 0])
  expect(chart.sizes).toEqual([5, 5, 5, 5])
})

it('shows one bar if the clock was set back before the start of the process', () => {
  const since = NOW + DAY
  const chart = chartOf({ status: true, since, now: NOW, store_bytes: 5, minutes: [] })
  expect([chart.from - NOW, chart.rates, chart.sizes]).toEqual([0, [0], [5]])
})
