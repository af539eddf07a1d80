// When the feed works and when it rests; what it sends is in test/changes.test.ts.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { Schedule } from '../../base/clock.ts'
import { packPosition } from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import type { Slice } from './entry-page.ts'
import { ChangeFeed, FEED_BOUNDS, type Follower } from './feed.ts'

/** Runs what waits when it is told to, and remembers for how long it was to wait. */
class HandSchedule implements Schedule {
  readonly waits: number[] = []
  #next: (() => void) | null = null

  after(ms: number, run: () => void): () => void {
    if (ms === FEED_BOUNDS.heartbeatMs) return () => {}
    this.waits.push(ms)
    this.#next = run
    return () => {}
  }

  /** Runs it, and what comes of it until the feed waits again. */
  async run(): Promise<void> {
    this.#next?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
}

let loopShare: number
beforeEach(() => {
  loopShare = 0
  let nowMs = 0
  // Each look at the clock costs a millisecond: a turn with one follower takes two.
  vi.spyOn(performance, 'now').mockImplementation(() => {
    nowMs += 1
    return nowMs
  })
  vi.spyOn(performance, 'eventLoopUtilization').mockImplementation(() => ({
    idle: 0,
    active: 0,
    utilization: loopShare,
  }))
})
afterEach(() => vi.restoreAllMocks())

/** `slice`: what the follower takes each time, if anything. */
async function followed(
  slice: Slice | null = null,
): Promise<{ schedule: HandSchedule; commit: (height: number) => void }> {
  const schedule = new HandSchedule()
  const block = { entries: ['{"db":"a"}'], timestamps: [1] }
  const store = {
    serverId: 1,
    blocks: async (_: number, height: number) => [{ ...block, height }],
  } as unknown as StoreReader
  const feed = new ChangeFeed(null, { store, schedule, bounds: FEED_BOUNDS })
  const follower: Follower = {
    busy: false,
    held: slice,
    take: (page) => page.end,
    beat() {},
    end() {},
  }
  await feed.join(follower, 'now')
  return { schedule, commit: (height) => feed.committed(packPosition(height, 0)) }
}

it('what is written now and then goes out at once, and the feed is soon ready again', async () => {
  const { schedule, commit } = await followed()
  for (let height = 0; height < 3; height += 1) {
    commit(height)
    await schedule.run()
    await schedule.run()
  }
  expect(schedule.waits).toEqual([0, 2, 0, 2, 0, 2])
})

it.each([
  ['nine', 'something', { bytes: Buffer.from('an event'), next: 0, holders: 0 }, 18],
  ['29', 'nothing', null, 58],
])(
  'beside writers the feed rests %s times as long as it works when it has %s to hand over',
  async (_times, _what, slice, rest) => {
    const { schedule, commit } = await followed(slice)
    commit(0)
    await schedule.run()
    for (const height of [1, 2]) {
      commit(height)
      await schedule.run()
    }
    // Woken, the first turn alone, then one for each of the others.
    expect(schedule.waits).toEqual([0, 2, rest, rest])
  },
)

it('where the event loop is crowded the feed rests for what it handed over, too', async () => {
  const slice = { bytes: Buffer.from('an event'), next: 0, holders: 0 }
  const { schedule, commit } = await followed(slice)
  commit(0)
  await schedule.run()
  for (const [height, share] of [0.2, 0.9, 0.9, 0.2].entries()) {
    commit(height + 1)
    loopShare = share
    await schedule.run()
  }
  expect(schedule.waits).toEqual([0, 2, 18, 24, 24, 18])
})
