import { expect, it } from 'vitest'
import { toChart } from '../../src/dashboard/browser/node/activity.ts'

const MINUTE = 60_000
const NOW = 1_800_000_000_000
const DAY = 24 * 60 * MINUTE

const minute = (ago: number, entries: number, bytes: number | null) => ({
  ...{ time: NOW - ago * MINUTE, blocks: 1, entries, bytes: 9, store_bytes: bytes },
})

it('each bar shows the average of ten minutes, and the last bar ends after the current time', () => {
  const chart = toChart({
    ...{ since: NOW - 2 * DAY, now: NOW, store_bytes: 500 },
    minutes: [minute(1_435, 5, 100), minute(12, 20, 300), minute(11, 10, 310), minute(1, 7, 400)],
  })
  expect([chart.rates.length, chart.sizes.length]).toEqual([144, 144])
  expect([chart.to - NOW, chart.to - chart.from]).toEqual([10 * MINUTE, DAY])
  expect(chart.rates.slice(-3)).toEqual([3, 0.7, 0])
  expect(chart.rates.reduce<number>((sum, rate) => sum + (rate ?? 0) * 10, 0)).toBeCloseTo(37)
  expect([chart.entries, chart.blocks]).toEqual([42, 4])
  expect(chart.sizes.slice(-4)).toEqual([300, 400, 500, 500])
})

it('begins at the start of the process with a bar per minute, and shows the size until now even if there were no changes', () => {
  const since = NOW - 25 * MINUTE
  const chart = toChart({ since, now: NOW, store_bytes: 5, minutes: [] })
  expect([chart.from - NOW, chart.to - NOW]).toEqual([-30 * MINUTE, 10 * MINUTE])
  expect(chart.barMinutes).toBe(1)
  expect(chart.rates).toEqual(Array(40).fill(0))
  expect(chart.sizes).toEqual([...Array(5).fill(0), ...Array(26).fill(5), ...Array(9).fill(0)])
})

it('the averages of the first and the last bar count only the time that the process ran', () => {
  const since = NOW - 204 * MINUTE
  const reply = { since, now: NOW + 5 * MINUTE, store_bytes: 5 }
  const chart = toChart({ ...reply, minutes: [minute(203, 8, 5), minute(-2, 10, 5)] })
  expect([chart.barMinutes, chart.rates.length, chart.from - since]).toEqual([10, 22, -6 * MINUTE])
  expect([chart.rates[0], chart.rates.at(-1)]).toEqual([2, 2])
})

it('begins at the current time if the clock was set back before the start of the process', () => {
  const since = NOW + DAY
  const chart = toChart({ since, now: NOW, store_bytes: 5, minutes: [] })
  expect([chart.from - NOW, chart.rates.length, chart.sizes[0]]).toEqual([0, 10, 5])
})
