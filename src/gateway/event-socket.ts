import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import type { BlockEvents, EventPage } from './replays.ts'

/** Bytes that may wait to be sent; a client that is further behind is closed. */
const WAITING_BYTES_MAX = 1024 * 1024
/** Bytes of recorded events that wait for a client before it has taken them; one block may pass it. */
const REPLAY_BYTES = 128 * 1024

/** 1013, “try again later”: the client is too slow, and may come back with `since`. */
const TOO_SLOW = 1_013
const INTERNAL_ERROR = 1_011

/** Events are text frames, sent from bytes that all sockets share. */
const TEXT = { binary: false } as const

/** One connection that listens for events. */
export class EventSocket {
  readonly #socket: WebSocket
  readonly #stream: Duplex
  readonly #wants: (type: string) => boolean
  #isLive: boolean
  /** Height of the last block that was sent; events of blocks up to it are not sent again. */
  #height = -1
  #answered = true

  /**
   * `stream` is the connection under `socket`. Unless `isLive`, new events are left out until
   * `goLive`: a replay reads them from the ledger.
   */
  constructor(
    socket: WebSocket,
    stream: Duplex,
    { wants, isLive }: { wants: (type: string) => boolean; isLive: boolean },
  ) {
    this.#socket = socket
    this.#stream = stream
    this.#wants = wants
    this.#isLive = isLive
    socket.on('pong', () => {
      this.#answered = true
    })
    // What is wrong with a frame closes the connection, and that is all there is to do about it.
    socket.on('error', () => {})
  }

  get isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN
  }

  /** Sends new events, each as a text frame. */
  tell({ height, frames }: BlockEvents): void {
    if (!this.#isLive || height <= this.#height) return
    this.#height = height
    for (const { type, bytes } of frames) {
      if (this.#wants(type)) this.#socket.send(bytes, TEXT)
    }
    if (this.#socket.bufferedAmount > WAITING_BYTES_MAX) this.#giveUp()
  }

  /**
   * Sends a part of the recorded events of `page` from the block at `from` on. Resolves when the client
   * has taken them, to the height from which to go on.
   */
  async replay(page: EventPage, from: number): Promise<number> {
    const { frames, next } = this.#part(page, from)
    this.#height = next - 1
    this.#stream.cork()
    for (const [at, bytes] of frames.entries()) {
      const isLast = at === frames.length - 1
      if (!isLast && this.#socket.bufferedAmount < REPLAY_BYTES) {
        this.#socket.send(bytes, TEXT)
        continue
      }
      await new Promise<void>((resolve) => {
        this.#socket.send(bytes, TEXT, () => resolve())
        this.#stream.uncork()
      })
      this.#stream.cork()
    }
    this.#stream.uncork()
    return next
  }

  /** From now on `tell` sends new events. */
  goLive(): void {
    this.#isLive = true
  }

  /** Closes the connection because recorded events cannot be read. */
  fail(): void {
    this.close(INTERNAL_ERROR, 'the recorded events cannot be read')
  }

  /** Asks whether the client is there; one that did not answer the last time is not. */
  ping(): void {
    if (!this.#answered) {
      this.#socket.terminate()
      return
    }
    this.#answered = false
    this.#socket.ping()
  }

  close(code: number, reason: string): void {
    this.#socket.close(code, reason)
  }

  /** The wanted frames of whole blocks from `from` on, up to REPLAY_BYTES; the rest is read again. */
  #part({ blocks, next }: EventPage, from: number): { frames: Buffer[]; next: number } {
    const wanted: Buffer[] = []
    let size = 0
    for (const { height, frames } of blocks) {
      if (height < from) continue
      for (const { type, bytes } of frames) {
        if (!this.#wants(type)) continue
        wanted.push(bytes)
        size += bytes.length
      }
      if (size >= REPLAY_BYTES) return { frames: wanted, next: height + 1 }
    }
    return { frames: wanted, next }
  }

  #giveUp(): void {
    this.#socket.close(TOO_SLOW, 'too slow')
    this.#socket.terminate()
  }
}
