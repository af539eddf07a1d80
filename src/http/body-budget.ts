import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../base/clock.ts'
import { BodyShares } from './body-shares.ts'
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
  readonly #shares: BodyShares

  constructor(bytesMax = DEFAULT_BUDGET, clock?: Clock) {
    this.#shares = new BodyShares(bytesMax, clock)
  }

  /**
   * Reserves memory for a body until its reply is sent, or returns a refusal if the budget is used up. A body whose
   * Content-Length exceeds `bytesMax` needs no memory, because it is refused unread.
   */
  reserve(
    request: Pick<FastifyRequest, 'growBody' | 'raw' | 'ip'>,
    { length, transfer }: RequestHeaders,
    bytesMax: number,
    response: ServerResponse<IncomingMessage>,
  ): HttpRefusal | null {
    // A body with an invalid length (NaN) is not counted, because it is rejected later.
    if (transfer === undefined && !(Number(length ?? 0) > SMALL)) return null
    const announced = transfer === undefined ? Number(length) : UNANNOUNCED_BYTES
    if (announced > bytesMax && transfer === undefined) return null
    const grow = this.#shares.open(request, response)
    request.growBody = (bytes) => (grow(bytes) ? null : BODIES_BUSY)
    return request.growBody(Math.min(announced, bytesMax))
  }
}
