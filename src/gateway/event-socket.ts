import type { WebSocket } from 'ws'
import type { EmittedEvents } from '../network/index.ts'

/** Bytes that may wait to be sent; a client that is further behind is closed. */
const WAITING_BYTES_MAX = 1024 * 1024
/** Events that may wait while those of the past are sent. */
const HELD_EVENTS_MAX = 10_000

/** 1013, “try again later”: the client is too slow, and may come back with `since`. */
const TOO_SLOW = 1_013

/** One connection that listens for events. */
export class EventSocket {
  readonly #socket: WebSocket
  readonly #wants: (type: string) => boolean
  /** What came while the past was sent; null when it is not being sent. */
  #held: EmittedEvents[] | null = null
  #heldEvents = 0
  /** Of the last block that was sent; events of blocks up to it are not sent again. */
  #height = -1
  #answered = true

  constructor(socket: WebSocket, wants: (type: string) => boolean) {
    this.#socket = socket
    this.#wants = wants
    socket.on('pong', () => {
      this.#answered = true
    })
    // What is wrong with a frame closes the connection, and that is all there is to do about it.
    socket.on('error', () => {})
  }

  /** Sends new events, each as a text frame. */
  tell(emitted: EmittedEvents): void {
    if (this.#held !== null) {
      this.#heldEvents += emitted.events.length
      if (this.#heldEvents > HELD_EVENTS_MAX) this.#giveUp()
      else this.#held.push(emitted)
      return
    }
    void this.#send(emitted)
  }

  /**
   * Sends the events of the past, no faster than the client takes them; then those that came
   * meanwhile, and from then on each as it comes: none twice, and none left out.
   */
  async replay(past: AsyncIterable<EmittedEvents>): Promise<void> {
    this.#held = []
    for await (const emitted of past) {
      if (this.#socket.readyState !== this.#socket.OPEN) return
      await this.#send(emitted)
    }
    const held = this.#held
    this.#held = null
    for (const emitted of held) void this.#send(emitted)
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

  /** Settles when the client has taken what was sent. */
  async #send({ height, events }: EmittedEvents): Promise<void> {
    if (height <= this.#height) return
    this.#height = height
    let taken: Promise<void> = Promise.resolve()
    for (const { type, text } of events) {
      if (!this.#wants(type)) continue
      taken = new Promise((resolve) => {
        this.#socket.send(text, () => resolve())
      })
    }
    if (this.#socket.bufferedAmount > WAITING_BYTES_MAX) this.#giveUp()
    await taken
  }

  #giveUp(): void {
    this.#socket.close(TOO_SLOW, 'too slow')
    this.#socket.terminate()
  }
}
