// test/gateway/events.test.ts tests replays over real sockets.
import { expect, it, onTestFinished, vi } from 'vitest'
import {
  type EventPage,
  type ReplaySource,
  Replays,
  type ReplayTarget,
  type SentPart,
} from './replays.ts'

const PAGE_BLOCKS = 4
const settled = () => new Promise<void>((resolve) => setImmediate(resolve))

/** A chain with one event per block. Reads resolve when the test calls `answer`. */
class Source implements ReplaySource {
  sent = 0
  /** Heights that were read. */
  readonly reads: number[] = []
  reading = 0
  #answers: (() => void)[] = []
  blocks: number

  constructor(blocks: number) {
    this.blocks = blocks
  }

  read(height: number): Promise<EventPage> {
    this.reads.push(height)
    this.reading += 1
    expect(this.reading).toBe(1)
    // As in the store, a page has only blocks that exist when the read begins.
    const next = Math.max(height, Math.min(height + PAGE_BLOCKS, this.blocks))
    const blocks = Array.from({ length: next - height }, (_, at) => ({
      height: height + at,
      frames: [{ type: 'E', bytes: Buffer.from(`${height + at}`) }],
    }))
    return new Promise((resolve) => {
      this.#answers.push(() => {
        this.reading -= 1
        resolve({ blocks, next })
      })
    })
  }

  /** Resolves the pending read and waits until the replays have handled the result. */
  async answer(): Promise<void> {
    for (const answer of this.#answers.splice(0)) answer()
    await settled()
  }

  /** Resolves reads until no read is pending. */
  async answerAll(): Promise<void> {
    while (this.reading > 0) await this.answer()
  }
}

/** A socket that sends at once or, if `isSlow` is set, when the test calls `receive`. */
class Target implements ReplayTarget {
  isOpen = true
  isLive = false
  hasFailed = false
  readonly heights: number[] = []
  readonly isSlow: boolean
  /** Size of each part. */
  readonly bytes: number
  receive = () => {}

  constructor(isSlow = false, bytes = 1) {
    this.isSlow = isSlow
    this.bytes = bytes
  }

  replay({ blocks, next }: EventPage, from: number): SentPart {
    for (const { height } of blocks) if (height >= from) this.heights.push(height)
    const { promise, resolve } = Promise.withResolvers<number>()
    this.receive = () => resolve(next)
    if (!this.isSlow) this.receive()
    return { bytes: this.bytes, sent: promise }
  }

  drop(): void {
    this.isOpen = false
  }

  goLive(): void {
    this.isLive = true
  }

  fail(): void {
    this.hasFailed = true
  }
}

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => from + n)

it('reads each page only once for a thousand sockets, and one page at a time', async () => {
  const source = new Source(10)
  const replays = new Replays(async () => {})
  const targets = Array.from({ length: 1_000 }, () => new Target())
  for (const target of targets) replays.add(source, target, 0)
  await source.answerAll()
  expect(source.reads).toEqual([0, 4, 8, 10])
  for (const target of targets) {
    expect(target.heights).toEqual(range(0, 10))
    expect(target.isLive).toBe(true)
  }
})

it('sends each socket the events from the height that it requested', async () => {
  const source = new Source(10)
  const replays = new Replays(async () => {})
  const targets = [3, 0, 9, 12].map((since) => {
    const target = new Target()
    replays.add(source, target, since)
    return target
  })
  await source.answerAll()
  expect(targets.map(({ heights }) => heights)).toEqual([
    range(3, 10),
    range(0, 10),
    range(9, 10),
    [],
  ])
  expect(targets.every(({ isLive }) => isLive)).toBe(true)
})

it('stops reading for a closed socket', async () => {
  const source = new Source(1_000)
  const replays = new Replays(async () => {})
  const target = new Target()
  replays.add(source, target, 0)
  await source.answer()
  target.isOpen = false
  await source.answerAll()
  expect(source.reads).toEqual([0, 4])
  expect(target.heights).toEqual(range(0, 4))
})

it('reads the next page for a slow client only after the client has received the previous page', async () => {
  const source = new Source(8)
  const replays = new Replays(async () => {})
  const slow = new Target(true)
  const fast = new Target()
  replays.add(source, slow, 0)
  replays.add(source, fast, 0)
  await source.answerAll()
  expect(fast.isLive).toBe(true)
  expect(source.reads).toEqual([0, 4, 8])
  expect(slow.heights).toEqual(range(0, 4))
  slow.receive()
  await settled()
  await source.answerAll()
  expect(source.reads).toEqual([0, 4, 8, 4])
  expect(slow.heights).toEqual(range(0, 8))
})

it('drops the clients that wait longest if the unread parts of all clients take too much memory', async () => {
  const source = new Source(8)
  const replays = new Replays(async () => {})
  const targets = Array.from({ length: 4 }, () => new Target(true, 100 * 1024 * 1024))
  for (const target of targets) replays.add(source, target, 0)
  await source.answer()
  expect(targets.map(({ isOpen }) => isOpen)).toEqual([false, false, true, true])
  for (const { receive } of targets) receive()
  await settled()
  await source.answerAll()
  expect(targets.map(({ isOpen }) => isOpen)).toEqual([false, false, true, true])
})

it('reads once more before live events are sent, if events were published during the last read', async () => {
  const source = new Source(2)
  const replays = new Replays(async () => {})
  const target = new Target()
  replays.add(source, target, 0)
  await source.answer()
  expect(source.reads).toEqual([0, 2])
  // The read from height 2 found no block. Then a block is recorded and sent before the read resolves.
  source.blocks = 3
  source.sent += 1
  await source.answer()
  expect(target.isLive).toBe(false)
  await source.answerAll()
  expect(source.reads).toEqual([0, 2, 2, 3])
  expect(target.heights).toEqual([0, 1, 2])
  expect(target.isLive).toBe(true)
})

it('reads the event sources in turn', async () => {
  const sources = [new Source(5), new Source(5)]
  const replays = new Replays(async () => {})
  const targets = sources.map((source) => {
    const target = new Target()
    replays.add(source, target, 0)
    return target
  })
  const [first, second] = sources
  expect([first?.reads, second?.reads]).toEqual([[0], []])
  await first?.answer()
  expect([first?.reads, second?.reads]).toEqual([[0], [0]])
  for (let n = 0; n < 4; n += 1) for (const source of sources) await source.answerAll()
  expect(targets.map(({ heights }) => heights)).toEqual([range(0, 5), range(0, 5)])
})

it('fails only the socket whose events cannot be read, and serves the other sockets', async () => {
  const broken = { sent: 0, read: () => Promise.reject(new Error('damaged')) }
  const source = new Source(1)
  const replays = new Replays(async () => {})
  const [failing, healthy] = [new Target(), new Target()]
  replays.add(broken, failing, 0)
  replays.add(source, healthy, 0)
  await settled()
  await source.answerAll()
  expect([failing.hasFailed, failing.isLive]).toEqual([true, false])
  expect([healthy.hasFailed, healthy.isLive]).toEqual([false, true])
})

it('after 10 ms of work, pauses for the duration of the work, at most 100 ms', async () => {
  let nowMs = 0
  // Each call advances the clock by 4 ms.
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => {
    nowMs += 4
    return nowMs
  })
  onTestFinished(() => clock.mockRestore())
  const pauses: number[] = []
  const source = new Source(1)
  const replays = new Replays(async (ms) => {
    pauses.push(ms)
  })
  for (let n = 0; n < 5; n += 1) replays.add(source, new Target(), 0)
  await source.answer()
  // Each socket takes 4 ms. The first pause follows the third socket (12 ms), the second pause follows the last
  // socket (8 ms). Measuring the length of a pause adds 4 ms.
  expect(pauses).toEqual([16, 12])
  nowMs += 1_000
  await source.answer()
  expect(pauses[2]).toBe(100)
})
