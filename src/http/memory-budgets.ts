import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { HttpRefusal } from './refusal.ts'
import type { RequestHeaders } from './request-headers.ts'

// Limits of the total memory for bodies and replies of a listener. A single body or reply has its own limit, but a
// thousand connections can have a thousand bodies and replies.

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the route reads its body piece by piece and does not keep it in memory. */
    streamsBody?: boolean
  }
  interface FastifyRequest {
    /**
     * Raises the memory reserved for the body to `bytes`, or returns a refusal if the budget is used up. Null if
     * the body is not counted.
     */
    growBody: ((bytes: number) => HttpRefusal | null) | null
  }
}

/** Length up to which bodies and writes are not counted, because `socketsMax` limits their number. */
const SMALL = 64 * 1024
/** Bytes reserved at first for a body of unknown length. */
const UNANNOUNCED_BYTES = 1024 * 1024
const DEFAULT_BUDGET = 256 * 1024 * 1024

const BODIES_BUSY = new HttpRefusal(
  503,
  'BODIES_BUSY',
  'too many long request bodies at the same time; try again later',
)

/** Limits the total memory of all request bodies of a listener. */
export class BodyBudget {
  readonly #max: number
  #reserved = 0

  constructor(bytesMax = DEFAULT_BUDGET) {
    this.#max = bytesMax
  }

  /** Whether a body is long enough to be counted. */
  counts({ length, transfer }: RequestHeaders): boolean {
    // A body with an invalid length (NaN) is not counted, because it is rejected later.
    return transfer !== undefined || Number(length ?? 0) > SMALL
  }

  /**
   * Reserves memory for a body until its reply is sent, or returns a refusal if the budget is used up. A body whose
   * Content-Length exceeds `bytesMax` needs no memory, because it is refused unread.
   */
  reserve(
    request: Pick<FastifyRequest, 'growBody'>,
    { length, transfer }: RequestHeaders,
    bytesMax: number,
    response: ServerResponse<IncomingMessage>,
  ): HttpRefusal | null {
    const announced = transfer === undefined ? Number(length) : UNANNOUNCED_BYTES
    if (announced > bytesMax && transfer === undefined) return null
    let reserved = 0
    const grow = (bytes: number) => {
      if (bytes <= reserved) return null
      if (this.#reserved + bytes - reserved > this.#max) return BODIES_BUSY
      this.#reserved += bytes - reserved
      reserved = bytes
      return null
    }
    request.growBody = grow
    response.once('close', () => {
      this.#reserved -= reserved
    })
    return grow(Math.min(announced, bytesMax))
  }
}

/**
 * Limits the total length of all unsent replies of a listener, in characters of text or bytes.
 *
 * A long reply is refused while the budget is used up. The length of a streamed reply is unknown when the reply is
 * accepted, so streams can exceed the budget. Above twice the budget, the connections that have been waiting longest
 * are closed.
 */
export class ReplyBudget {
  readonly #max: number
  /** Total length of the pending long writes per connection, longest wait first. */
  readonly #pending = new Map<Socket, number>()
  /** Sum of `#pending`. */
  #unsent = 0

  constructor(max = DEFAULT_BUDGET) {
    this.#max = max
  }

  /**
   * Returns a refusal if there is no budget for a reply of `payload` (text, bytes or a stream), or else null. A reply
   * longer than the whole budget is accepted if no other reply is pending.
   */
  refusal(payload: unknown): HttpRefusal | null {
    const length = lengthOf(payload)
    if (length !== null && length <= SMALL) return null
    if (this.#unsent === 0 || this.#unsent + (length ?? 0) <= this.#max) return null
    return new HttpRefusal(
      503,
      'REPLIES_BUSY',
      'too many long replies are waiting for slow clients; try again later',
    )
  }

  /** Counts `payload` until `response` has sent it. */
  track(response: ServerResponse<IncomingMessage>, payload: unknown): void {
    const { socket } = response.req
    if (payload instanceof Readable) {
      response.once('pipe', (source) => {
        source.on('data', (piece: unknown) => {
          if (!response.writableNeedDrain) return
          const counted = this.add(socket, piece)
          if (counted > 0) response.once('drain', () => this.remove(socket, counted))
        })
      })
      return
    }
    const counted = this.add(socket, payload)
    if (counted > 0) response.once('finish', () => this.remove(socket, counted))
  }

  /** Counts a pending write of `piece` to `socket`. Returns the length to pass to `remove` when `piece` was sent. */
  add(socket: Socket, piece: unknown): number {
    const length = lengthOf(piece) ?? 0
    if (length <= SMALL || socket.destroyed) return 0
    this.#pending.set(socket, (this.#pending.get(socket) ?? 0) + length)
    this.#unsent += length
    for (const slowest of this.#pending.keys()) {
      if (this.#unsent <= 2 * this.#max || slowest === socket) break
      this.forget(slowest)
      slowest.destroy()
    }
    return length
  }

  /** Subtracts `length` from the pending writes of `socket`. Called when a write of this length was sent. */
  remove(socket: Socket, length: number): void {
    const pending = this.#pending.get(socket)
    if (pending === undefined) return
    this.#unsent -= length
    if (pending === length) this.#pending.delete(socket)
    else this.#pending.set(socket, pending - length)
  }

  /** Subtracts all pending writes of `socket`. Called when `socket` has closed. */
  forget(socket: Socket): void {
    this.#unsent -= this.#pending.get(socket) ?? 0
    this.#pending.delete(socket)
  }
}

/** Returns the length of a string or of bytes, or null for a stream. */
function lengthOf(payload: unknown): number | null {
  if (payload === null || payload === undefined) return 0
  if (typeof payload === 'string' || payload instanceof Uint8Array) return payload.length
  return null
}
