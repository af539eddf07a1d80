import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { HttpRefusal } from './refusal.ts'
import type { RequestHeaders } from './request-headers.ts'

// Each body and each reply is bounded by itself, but a thousand connections can have one each. These are the
// bounds of one listener for all of them together.

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route reads its body piece by piece and keeps none of it. */
    streamsBody?: boolean
  }
  interface FastifyRequest {
    /** Counts `bytes` for the body if that is more than before; null where the body is not counted. */
    growBody: ((bytes: number) => HttpRefusal | null) | null
  }
}

/** Bodies and writes up to this length are not counted: `socketsMax` bounds their number. */
const SMALL = 64 * 1024
/** Initial count of a body of unknown length. */
const UNANNOUNCED_BYTES = 1024 * 1024
const DEFAULT_BUDGET = 256 * 1024 * 1024

const BODIES_BUSY = new HttpRefusal(
  503,
  'BODIES_BUSY',
  'too many long bodies are arriving or being worked on; try again later',
)

/** Bounds the memory of all request bodies of a listener. */
export class BodyBudget {
  readonly #max: number
  #held = 0

  constructor(bytesMax = DEFAULT_BUDGET) {
    this.#max = bytesMax
  }

  /** Whether a body is long enough to be counted. */
  counts({ length, transfer }: RequestHeaders): boolean {
    // NaN is not: an invalid length is rejected later.
    return transfer !== undefined || Number(length ?? 0) > SMALL
  }

  /**
   * Reserves memory for a body until its reply is over; returns the refusal when there is not enough. A body
   * announced as longer than `bytesMax` is refused before it is read and needs no memory.
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
      if (this.#held + bytes - reserved > this.#max) return BODIES_BUSY
      this.#held += bytes - reserved
      reserved = bytes
      return null
    }
    request.growBody = grow
    response.once('close', () => {
      this.#held -= reserved
    })
    return grow(Math.min(announced, bytesMax))
  }
}

/**
 * Bounds the memory of all replies of a listener that slow connections have not taken yet. Lengths are
 * characters of text, or bytes.
 *
 * A long reply is refused while the budget is used up. Replies that are sent piece by piece grow after
 * they were admitted: beyond twice the budget, the connections that have waited longest are closed.
 */
export class ReplyBudget {
  readonly #max: number
  /** Length of the pending long writes of each connection, longest wait first. */
  readonly #pending = new Map<Socket, number>()
  #held = 0

  constructor(max = DEFAULT_BUDGET) {
    this.#max = max
  }

  /**
   * Returns the refusal of a reply of `payload` (text, bytes or a stream), or null. A reply longer than the
   * whole budget is admitted when nothing else is pending.
   */
  refusal(payload: unknown): HttpRefusal | null {
    const length = lengthOf(payload)
    if (length !== null && length <= SMALL) return null
    if (this.#held === 0 || this.#held + (length ?? 0) <= this.#max) return null
    return new HttpRefusal(
      503,
      'REPLIES_BUSY',
      'too many long replies wait for slow connections; try again later',
    )
  }

  /** Counts `payload` while `response` sends it. */
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

  /** Counts `piece`, which `socket` has to send; returns the length to pass to `remove` later. */
  add(socket: Socket, piece: unknown): number {
    const length = lengthOf(piece) ?? 0
    if (length <= SMALL || socket.destroyed) return 0
    this.#pending.set(socket, (this.#pending.get(socket) ?? 0) + length)
    this.#held += length
    for (const slowest of this.#pending.keys()) {
      if (this.#held <= 2 * this.#max || slowest === socket) break
      this.forget(slowest)
      slowest.destroy()
    }
    return length
  }

  /** `socket` has sent `length` of its pending writes. */
  remove(socket: Socket, length: number): void {
    const pending = this.#pending.get(socket)
    if (pending === undefined) return
    this.#held -= length
    if (pending === length) this.#pending.delete(socket)
    else this.#pending.set(socket, pending - length)
  }

  /** `socket` has closed. */
  forget(socket: Socket): void {
    this.#held -= this.#pending.get(socket) ?? 0
    this.#pending.delete(socket)
  }
}

/** Length of text or bytes; null if unknown (a stream). */
function lengthOf(payload: unknown): number | null {
  if (payload === null || payload === undefined) return 0
  if (typeof payload === 'string' || payload instanceof Uint8Array) return payload.length
  return null
}
