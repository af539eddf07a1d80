import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { createRefusal, type HttpRefusal } from './refusal.ts'
import type { RequestHeaders } from './request-headers.ts'

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

/** Length up to which bodies are not counted, because `socketsMax` limits their number. */
const SMALL = 64 * 1024
/** Bytes reserved at first for a body of unknown length. */
const UNANNOUNCED_BYTES = 1024 * 1024
const DEFAULT_BUDGET = 256 * 1024 * 1024

const BODIES_BUSY = createRefusal('BODIES_BUSY')

/** Limits the total memory of all request bodies of a listener. */
export class BodyBudget {
  readonly #max: number
  #reserved = 0

  constructor(bytesMax = DEFAULT_BUDGET) {
    this.#max = bytesMax
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
    // A body with an invalid length (NaN) is not counted, because it is rejected later.
    if (transfer === undefined && !(Number(length ?? 0) > SMALL)) return null
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
