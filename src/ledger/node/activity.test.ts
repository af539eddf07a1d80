import { expect, it } from 'vitest'
import { Activity } from './activity.ts'

const MINUTE = 60_000
const START = 1_800_000_000_000

it('counts blocks, entries and bytes per minute, and records the size of the store at the first block of each minute', async () => {
  let now = START + 5
  let size = 100
  const activity = new Activity({ now: () => now }, async () => size)
  activity.note({ entries: 2, bytes: 20 })
  size = 200
  activity.note({ entries: 3, bytes: 30 })
  now = START + 3 * MINUTE
  activity.note({ entries: 1, bytes: 10 })
  await Promise.resolve()
  expect(activity.since).toBe(START + 5)
  expect(activity.minutes()).toEqual([
    { time: START, blocks: 2, entries: 5, bytes: 50, storeBytes: 100 },
    { time: START + 3 * MINUTE, blocks: 1, entries: 1, bytes: 10, storeBytes: 200 },
  ])
})

it('lists at most 1,440 minutes, and omits minutes that are older than a day', () => {
  let now = START
  const activity = new Activity({ now: () => now }, async () => 0)
  for (let minute = 0; minute < 1_500; minute += 1) {
    now = START + minute * MINUTE
    activity.note({ entries: 1, bytes: 1 })
  }
  expect(activity.minutes()).toHaveLength(1_440)
  expect(activity.minutes()[0]?.time).toBe(START + 60 * MINUTE)
  now += 1_439 * MINUTE
  expect(activity.minutes().map(({ time }) => time)).toEqual([START + 1_499 * MINUTE])
})

it('counts no block in a minute of the future after the clock was set back, and reports null as the size of the store if the store does not answer', async () => {
  let now = START
  const activity = new Activity({ now: () => now }, () => Promise.reject(new Error('no answer')))
  activity.note({ entries: 1, bytes: 1 })
  now = START - 10 * MINUTE
  activity.note({ entries: 1, bytes: 1 })
  await Promise.resolve()
  expect(activity.minutes()).toMatchObject([
    { time: START - 10 * MINUTE, blocks: 2, storeBytes: null },
  ])
})
