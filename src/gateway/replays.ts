/** A slice of work after which other requests are served, milliseconds. */
const SLICE_MS = 10
/** Longest rest after a slice, milliseconds. */
const REST_MS_MAX = 100

/** An event, as a WebSocket sends it. */
export interface EventFrame {
  readonly type: string
  readonly bytes: Buffer
}

/** The events of one block of the ledger. */
export interface BlockEvents {
  readonly height: number
  readonly frames: readonly EventFrame[]
}

/** The events of some blocks that follow each other. */
export interface EventPage {
  readonly blocks: readonly BlockEvents[]
  /** Height after the last block read; the height that was asked for when there is none. */
  readonly next: number
}

/** Recorded events, as one caller receives them. */
export interface ReplaySource {
  /** Counts the calls of `EventSocket.tell` for this caller. */
  readonly told: number
  /** The events of the blocks from `height` on, in one read of bounded size. */
  read(height: number): Promise<EventPage>
}

/** A socket that is sent recorded events. */
export interface ReplayTarget {
  readonly isOpen: boolean
  /** Sends events of `page` from the block at `from` on; resolves, once taken, to the next height. */
  replay(page: EventPage, from: number): Promise<number>
  /** Everything was sent: new events go to it directly. */
  goLive(): void
  /** The events cannot be read. */
  fail(): void
}

interface Replay {
  readonly source: ReplaySource
  readonly target: ReplayTarget
  next: number
}

/**
 * Sends recorded events to sockets, however many ask for them.
 *
 * One page is read at a time, for all replays of the same source within it. A socket takes part again when
 * its client has taken what it was sent, so each holds one part of a page. After each slice of work the
 * replays rest as long as it took. A socket that has closed is never read for.
 */
export class Replays {
  readonly #rest: (ms: number) => Promise<void>
  /** Replays whose clients have taken everything, the longest waiting first. */
  readonly #ready = new Set<Replay>()
  #isRunning = false

  /** `rest` resolves after that many milliseconds. */
  constructor(rest: (ms: number) => Promise<void>) {
    this.#rest = rest
  }

  /** Sends `target` the events of all blocks from height `since` on; then it goes live. */
  add(source: ReplaySource, target: ReplayTarget, since: number): void {
    this.#enqueue({ source, target, next: since })
  }

  #enqueue(replay: Replay): void {
    if (!replay.target.isOpen) return
    this.#ready.add(replay)
    if (!this.#isRunning) void this.#run()
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    // The iteration also visits replays that are added meanwhile.
    for (const first of this.#ready) {
      if (first.target.isOpen) await this.#serve(first)
      else this.#ready.delete(first)
    }
    this.#isRunning = false
  }

  /** Reads the page that `first` needs, and sends it to every replay that needs it. */
  async #serve(first: Replay): Promise<void> {
    const { source, next: from } = first
    let startedAt = performance.now()
    const { told } = source
    const page = await source.read(from).catch(() => null)
    if (page === null) {
      this.#ready.delete(first)
      first.target.fail()
      return
    }
    const isEnd = page.next === from
    for (const replay of [...this.#ready]) {
      const isInPage = replay.next >= from && (isEnd || replay.next < page.next)
      if (replay.source !== source || !isInPage) continue
      this.#ready.delete(replay)
      if (!replay.target.isOpen) continue
      if (!isEnd) void this.#send(replay, page)
      // What was told since the read began may be of a block that the read did not see.
      else if (source.told === told) replay.target.goLive()
      else this.#ready.add(replay)
      if (performance.now() - startedAt < SLICE_MS) continue
      await this.#restAfter(startedAt)
      startedAt = performance.now()
    }
    await this.#restAfter(startedAt)
  }

  async #send(replay: Replay, page: EventPage): Promise<void> {
    replay.next = await replay.target.replay(page, replay.next)
    this.#enqueue(replay)
  }

  #restAfter(startedAt: number): Promise<void> {
    return this.#rest(Math.min(performance.now() - startedAt, REST_MS_MAX))
  }
}
