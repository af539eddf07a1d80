/** Milliseconds of work after which replays pause, so that other requests are served. */
const WORK_MS_MAX = 10
/** Maximum length of a pause, milliseconds. */
const PAUSE_MS_MAX = 100
/** Maximum bytes of the parts that clients have not accepted yet: 128 KiB for each of 2,000 sockets. */
const SENDING_BYTES_MAX = 256 * 1024 * 1024

/** An event as sent over a WebSocket. */
export interface EventFrame {
  readonly type: string
  readonly bytes: Buffer
}

export interface BlockEvents {
  readonly height: number
  readonly frames: readonly EventFrame[]
}

/** The events of consecutive blocks. */
export interface EventPage {
  readonly blocks: readonly BlockEvents[]
  /** Height after the last block read, or the requested height if there is no such block. */
  readonly next: number
}

/** Recorded events that one caller may receive. */
export interface ReplaySource {
  /** Number of blocks whose events were sent live to this caller so far. */
  readonly sent: number
  /** Reads one page: the events of consecutive blocks, starting with the block at `height`. */
  read(height: number): Promise<EventPage>
}

export interface ReplayTarget {
  readonly isOpen: boolean
  /** Sends a part of `page`: events from height `from` on. */
  replay(page: EventPage, from: number): SentPart
  /** Called after the last recorded event. From then on, new events are sent directly. */
  goLive(): void
  /** Called if the events cannot be read. */
  fail(): void
  /** Called if the client reads too slowly, and others need the memory of its part. */
  drop(): void
}

/** A part of a page that is being sent. */
export interface SentPart {
  readonly bytes: number
  /** Resolves to the next height when the part has been sent. */
  readonly sent: Promise<number>
}

interface Replay {
  readonly source: ReplaySource
  readonly target: ReplayTarget
  next: number
}

/**
 * Sends recorded events to any number of sockets.
 *
 * One page is read at a time, and sent to all replays of the same source that need this page. A replay continues
 * when its previous part has been sent, so each socket buffers only one part. If all parts together exceed
 * SENDING_BYTES_MAX, the slowest clients are dropped. After WORK_MS_MAX of work, the replays
 * pause for as long as they worked. Nothing is read for closed sockets.
 */
export class Replays {
  readonly #pause: (ms: number) => Promise<void>
  /** Replays that can send their next part, longest wait first. */
  readonly #ready = new Set<Replay>()
  /** The bytes of the parts that are being sent, longest wait first. */
  readonly #sending = new Map<Replay, number>()
  #sendingBytes = 0
  #isRunning = false

  /** `pause(ms)` resolves after `ms` milliseconds. */
  constructor(pause: (ms: number) => Promise<void>) {
    this.#pause = pause
  }

  /** Sends `target` the events of all blocks from height `since`, then calls `goLive`. */
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
    // A loop over a Set also visits the elements that are added during the loop.
    for (const first of this.#ready) {
      if (first.target.isOpen) await this.#serve(first)
      else this.#ready.delete(first)
    }
    this.#isRunning = false
  }

  /** Reads the page for `first` and sends it to every replay that needs it. */
  async #serve(first: Replay): Promise<void> {
    const { source, next: from } = first
    let startedAt = performance.now()
    const { sent } = source
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
      if (!isEnd) this.#send(replay, page)
      // If a block was sent after the read began, the page may lack this block, so the replay reads again.
      else if (source.sent === sent) replay.target.goLive()
      else this.#ready.add(replay)
      if (performance.now() - startedAt < WORK_MS_MAX) continue
      await this.#pauseAfter(startedAt)
      startedAt = performance.now()
    }
    await this.#pauseAfter(startedAt)
  }

  // Not async, because a suspended function would keep the page in memory.
  #send(replay: Replay, page: EventPage): void {
    const { bytes, sent } = replay.target.replay(page, replay.next)
    this.#sending.set(replay, bytes)
    this.#sendingBytes += bytes
    void sent.then((next) => {
      this.#sending.delete(replay)
      this.#sendingBytes -= bytes
      replay.next = next
      this.#enqueue(replay)
    })
    let excess = this.#sendingBytes - SENDING_BYTES_MAX
    for (const [slow, freed] of this.#sending) {
      if (excess <= 0) return
      excess -= freed
      slow.target.drop()
    }
  }

  #pauseAfter(startedAt: number): Promise<void> {
    return this.#pause(Math.min(performance.now() - startedAt, PAUSE_MS_MAX))
  }
}
