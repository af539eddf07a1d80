import type { Socket } from 'node:net'
import { HttpRefusal } from './refusal.ts'

/** Writes up to this long are not counted: `socketsMax` bounds how many there are. Characters or bytes. */
const SMALL = 64 * 1024
/** What the replies of a listener may have waiting for slow connections before long ones are refused. */
const ROOM = 256 * 1024 * 1024

/**
 * What the replies of a listener hold of its memory together: what a connection does not take waits in
 * memory, and a thousand connections can ask for ten megabytes each. All lengths are characters of text
 * or bytes.
 *
 * A long reply is refused while there is no room for it. Replies that are made piece by piece grow
 * after they were let in: beyond twice the room, the connections that have waited longest are closed.
 */
export class ReplyRoom {
  readonly #room: number
  /** What waits for each connection in long writes; the longest wait first. */
  readonly #waiting = new Map<Socket, number>()
  #held = 0

  constructor(room = ROOM) {
    this.#room = room
  }

  /**
   * Why a reply of `payload`, text, bytes or a stream, is not sent now, or null. One that is longer
   * than the room is sent when nothing else waits.
   */
  refusal(payload: unknown): HttpRefusal | null {
    const length = lengthOf(payload)
    if (length !== null && length <= SMALL) return null
    if (this.#held === 0 || this.#held + (length ?? 0) <= this.#room) return null
    return new HttpRefusal(
      503,
      'REPLIES_BUSY',
      'too many long replies wait for slow connections; try again later',
    )
  }

  /** `chunk` waits for `socket`. Returns what it counts, which is to be told to `taken`. */
  given(socket: Socket, chunk: unknown): number {
    const length = lengthOf(chunk) ?? 0
    if (length <= SMALL || socket.destroyed) return 0
    this.#waiting.set(socket, (this.#waiting.get(socket) ?? 0) + length)
    this.#held += length
    for (const slowest of this.#waiting.keys()) {
      if (this.#held <= 2 * this.#room || slowest === socket) break
      this.gone(slowest)
      slowest.destroy()
    }
    return length
  }

  /** `socket` has taken `length` of what waited for it. */
  taken(socket: Socket, length: number): void {
    const waiting = this.#waiting.get(socket)
    if (waiting === undefined) return
    this.#held -= length
    if (waiting === length) this.#waiting.delete(socket)
    else this.#waiting.set(socket, waiting - length)
  }

  /** `socket` is closed. */
  gone(socket: Socket): void {
    this.#held -= this.#waiting.get(socket) ?? 0
    this.#waiting.delete(socket)
  }
}

/** Of text and bytes; null for what is not there yet, a stream. */
function lengthOf(payload: unknown): number | null {
  if (payload === null || payload === undefined) return 0
  if (typeof payload === 'string' || payload instanceof Uint8Array) return payload.length
  return null
}
