import type { ServerResponse } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { type Clock, monotonicClock } from '../base/clock.ts'
import { readAddress, toClientKey } from './throttle.ts'

/** Event of a request whose body must end, because another request needs its share. */
export const OVERDUE = 'overdue'
/** A body is slow if it has arrived for SLOW_MS with less than SLOW_BYTES_PER_MS on average. */
const SLOW_MS = 10_000
const SLOW_BYTES_PER_MS = 32

interface Share {
  readonly client: string
  readonly raw: FastifyRequest['raw']
  readonly sinceMs: number
  /** Bytes that the connection had received before the body. */
  readonly bytesBefore: number
  amount: number
}

/**
 * Divides a maximum, e.g. of memory, between the bodies of requests in progress. When a body needs more than is left, an
 * incomplete body ends with REQUEST_TIMEOUT (408): the first slow body; otherwise, the oldest body of the client with
 * more than half of the maximum, unless the request is from that client. So slow uploads and the uploads of one
 * client do not lock out others.
 */
export class BodyShares {
  readonly #max: number
  readonly #clock: Clock
  readonly #shares = new Set<Share>()
  #used = 0

  constructor(max: number, clock: Clock = monotonicClock) {
    this.#max = max
    this.#clock = clock
  }

  /**
   * Returns a function that raises the share of the request to an amount until `response` closes. It returns false if
   * too little is left.
   */
  open(
    request: Pick<FastifyRequest, 'raw' | 'ip'>,
    response: Pick<ServerResponse, 'once'>,
  ): (amount: number) => boolean {
    const { raw } = request
    const client = toClientKey(readAddress(request))
    const sinceMs = this.#clock.now()
    const share: Share = { client, raw, sinceMs, bytesBefore: raw.socket.bytesRead, amount: 0 }
    this.#shares.add(share)
    response.once('close', () => this.#end(share))
    return (amount) => {
      if (!this.#shares.has(share)) return false
      while (this.#used + amount - share.amount > this.#max) {
        const other = this.#findReplaced(share)
        if (other === undefined) return false
        this.#end(other)
        // Without a reader, e.g. after a refusal, the connection is closed.
        if (!other.raw.emit(OVERDUE)) other.raw.destroy()
      }
      this.#used += Math.max(0, amount - share.amount)
      share.amount = Math.max(share.amount, amount)
      return true
    }
  }

  #end(share: Share): void {
    if (this.#shares.delete(share)) this.#used -= share.amount
  }

  /** Returns the share that may end so that `share` grows. */
  #findReplaced(share: Share): Share | undefined {
    const incomplete = [...this.#shares].filter(
      ({ raw, amount }) => raw !== share.raw && amount > 0 && !raw.complete,
    )
    const used = new Map<string, number>()
    for (const { client, amount } of this.#shares) {
      used.set(client, (used.get(client) ?? 0) + amount)
    }
    return (
      incomplete.find((each) => this.#isSlow(each)) ??
      incomplete.find(
        ({ client }) => client !== share.client && (used.get(client) ?? 0) > this.#max / 2,
      )
    )
  }

  /** A paused body is not slow: it waits for its reader. */
  #isSlow({ raw, sinceMs, bytesBefore }: Share): boolean {
    const ms = this.#clock.now() - sinceMs
    const bytes = raw.socket.bytesRead - bytesBefore
    return ms > SLOW_MS && !raw.isPaused() && bytes < ms * SLOW_BYTES_PER_MS
  }
}
