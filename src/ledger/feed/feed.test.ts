// Tests when the feed sends and when it pauses. test/changes.test.ts tests the events that the feed sends.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { Schedule } from '../../base/clock.ts'
import { packPosition } from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import { entryFilter } from '../read/entry-filter.ts'
import { ChangeFeed, FEED_BOUNDS, type Subscriber, type Subscription } from './feed.ts'

/** Runs scheduled functions on demand, and records their delays. */
class HandSchedule implements Schedule {
  readonly delays: number[] = []
  /** Sends the next heartbeats. */
  heartbeat = () => {}
  #next: (() => void) | null = null

  after(ms: number, run: () => void): () => void {
    if (ms === FEED_BOUNDS.heartbeatMs) {
      this.heartbeat = run
      return () => {}
    }
    this.delays.push(ms)
    this.#next = run
    return () => {}
  }

  /** Runs the scheduled function, and waits until the feed has scheduled the next function. */
  async run(): Promise<void> {
    this.#next?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
}

const clock = { stepMs: 1 }
beforeEach(() => {
  clock.stepMs = 1
  let nowMs = 0
  // Each call of the clock advances it by a millisecond, so a round with one subscriber takes two milliseconds.
  vi.spyOn(performance, 'now').mockImplementation(() => {
    nowMs += clock.stepMs
    return nowMs
  })
})
afterEach(() => vi.restoreAllMocks())

/** Creates a feed with a subscription to the database `db`. All entries are in the database `a`. */
async function subscribed(
  db = 'b',
): Promise<{ schedule: HandSchedule; commit: (height: number) => void }> {
  const schedule = new HandSchedule()
  const block = { entries: ['{"db":"a"}'], timestamps: [1] }
  const store = {
    serverId: 1,
    blocks: async (_: number, height: number) => [{ ...block, height }],
  } as unknown as StoreReader
  const feed = new ChangeFeed(null, { store, schedule, bounds: FEED_BOUNDS })
  let subscription: Subscription | null = null
  const send = () => subscription?.ready()
  const subscriber: Subscriber = { send, heartbeat() {}, end() {} }
  subscription = await feed.subscribe(subscriber, 'now', entryFilter({ db: [db] }))
  return { schedule, commit: (height) => feed.committed(packPosition(height, 0)) }
}

it('sends a single entry at once, and pauses only for the duration of the round', async () => {
  const { schedule, commit } = await subscribed()
  for (let height = 0; height < 3; height += 1) {
    commit(height)
    await schedule.run()
    await schedule.run()
  }
  expect(schedule.delays).toEqual([0, 2, 0, 2, 0, 2])
})

it('while blocks arrive, pauses for nine times the duration of a round, at most a second', async () => {
  const { schedule, commit } = await subscribed()
  commit(0)
  await schedule.run()
  for (const height of [1, 2]) {
    commit(height)
    await schedule.run()
  }
  commit(3)
  clock.stepMs = 200
  await schedule.run()
  // The first commit starts a round at once. Each round takes 2 ms, the last one 400 ms. The first pause is 2 ms,
  // because no other block was committed. The later pauses are 9 × 2 ms = 18 ms, and at most a second.
  expect(schedule.delays).toEqual([0, 2, 18, 18, 1_000])
})

it('rejects a subscription if the feed is full or closed after the position was checked', async () => {
  const block = { height: 0, entries: ['{"db":"a"}'], timestamps: [1] }
  const store = { serverId: 1, blocks: async () => [block] } as unknown as StoreReader
  const bounds = { ...FEED_BOUNDS, subscribersMax: 1 }
  const feed = new ChangeFeed(0, { store, schedule: new HandSchedule(), bounds })
  const subscriber: Subscriber = { send() {}, heartbeat() {}, end() {} }
  const unavailable = { code: 'FEED_UNAVAILABLE' }
  const first = feed.subscribe(subscriber, 0, null)
  const second = feed.subscribe(subscriber, 0, null)
  const { leave } = await first
  await expect(second).rejects.toMatchObject(unavailable)
  leave()
  const late = feed.subscribe(subscriber, 0, null)
  feed.close()
  await expect(late).rejects.toMatchObject(unavailable)
  expect(feed.subscribers).toBe(0)
})

/** Creates a feed of two blocks with one entry each. Subscribers accept no chunk until a test calls `ready`. */
function feedOfTwoBlocks() {
  const schedule = new HandSchedule()
  const texts = ['{"db":"a","n":0}', '{"db":"a","n":1}']
  /** Called before each read of the store. */
  const reading = { before: async () => {} }
  const store = {
    serverId: 1,
    blocks: async (_: number, from: number) => {
      await reading.before()
      return texts.map((text, height) => ({ height, entries: [text], timestamps: [1] })).slice(from)
    },
  } as unknown as StoreReader
  const feed = new ChangeFeed(packPosition(1, 0), { store, schedule, bounds: FEED_BOUNDS })
  const subscribe = async () => {
    const received = { text: '', heartbeats: [] as (number | null)[], ends: 0 }
    const subscription = await feed.subscribe(
      {
        send: (events) => {
          received.text += events.toString()
        },
        heartbeat: (passed) => void received.heartbeats.push(passed),
        end: () => {
          received.ends += 1
        },
      },
      'start',
      null,
    )
    return { received, ...subscription }
  }
  return { feed, schedule, texts, reading, subscribe }
}

it('sends no erased entry from the cache', async () => {
  const { feed, schedule, texts, subscribe } = feedOfTwoBlocks()
  const first = await subscribe()
  await schedule.run()
  expect(first.received.text).toContain('"n":0')
  texts[0] = '{"db":"a"}'
  feed.erased()
  const second = await subscribe()
  await schedule.run()
  await schedule.run()
  expect(second.received.text).toContain('"n":1')
  expect(second.received.text).not.toContain('"n":0')
})

it('sends nothing to a subscriber that leaves while its page is read', async () => {
  const { feed, schedule, reading, subscribe } = feedOfTwoBlocks()
  const { received, leave } = await subscribe()
  reading.before = async () => leave()
  await schedule.run()
  expect(received.text).toBe('')
  expect([feed.subscribers, feed.heldBytes, feed.ended.left]).toEqual([0, 0, 1])
})

it('tells a subscriber that catches up how far the filter has come, so that it need not start again', async () => {
  clock.stepMs = 20
  const schedule = new HandSchedule()
  const entries = ['{"db":"a"}', '{"db":"a"}']
  const store = {
    serverId: 1,
    blocks: async (_: number, height: number) => [{ height, entries, timestamps: [1, 1] }],
  } as unknown as StoreReader
  const feed = new ChangeFeed(packPosition(2, 1), { store, schedule, bounds: FEED_BOUNDS })
  const passed: (number | null)[] = []
  const heartbeat = (position: number | null) => void passed.push(position)
  await feed.subscribe({ send() {}, heartbeat, end() {} }, 'start', entryFilter({ db: ['b'] }))
  schedule.heartbeat()
  for (let round = 0; round < 4; round += 1) {
    schedule.heartbeat()
    await schedule.run()
  }
  schedule.heartbeat()
  const at = [0, 1, 2].map((height) => packPosition(height, 1))
  expect(passed).toEqual([null, ...at, at[2]])
})

it('sends heartbeats without a position before the first entry, and then with the last one', async () => {
  const { schedule, subscribe } = feedOfTwoBlocks()
  const { received, ready } = await subscribe()
  for (let count = 0; count < 2; count += 1) schedule.heartbeat()
  expect(received.heartbeats).toEqual([null])
  await schedule.run()
  ready()
  for (let count = 0; count < 2; count += 1) schedule.heartbeat()
  expect(received.heartbeats).toEqual([null, packPosition(1, 0)])
})

it('ends a subscription whose connection accepts nothing for three heartbeat intervals', async () => {
  const { feed, schedule, subscribe } = feedOfTwoBlocks()
  const { received } = await subscribe()
  await schedule.run()
  for (let count = 0; count < 2; count += 1) schedule.heartbeat()
  expect(received.ends).toBe(0)
  schedule.heartbeat()
  expect([received.ends, feed.ended.stalled, feed.heldBytes]).toEqual([1, 1, 0])
})

it('reads the blocks of other processes before it rejects a position', async () => {
  const entry = { entries: ['{"db":"a"}'], timestamps: [1] }
  const store = {
    serverId: 1,
    blocks: async (_: number, height: number) => [{ ...entry, height }],
  } as unknown as StoreReader
  const [schedule, bounds] = [new HandSchedule(), FEED_BOUNDS]
  const catchUp = async () => feed.committed(packPosition(1, 0))
  const feed = new ChangeFeed(packPosition(0, 0), { store, schedule, bounds, catchUp })
  const { after } = await feed.subscribe(
    { send() {}, heartbeat() {}, end() {} },
    packPosition(1, 0),
    null,
  )
  expect(after).toBe(packPosition(1, 0))
  await expect(feed.check(packPosition(2, 0))).rejects.toMatchObject({ code: 'POSITION_UNKNOWN' })
})
