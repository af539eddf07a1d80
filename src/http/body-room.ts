import type { IncomingMessage, ServerResponse } from 'node:http'
import { HttpRefusal } from './refusal.ts'
import type { FormHeaders } from './request-form.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route reads its body piece by piece and keeps none of it. */
    streamsBody?: boolean
  }
}

/** Bodies up to this long are not counted: `socketsMax` bounds how many there are. */
const SMALL_BYTES = 64 * 1024
/** What a body of unknown length counts at first; it counts more as it grows. */
const UNANNOUNCED_BYTES = 1024 * 1024
/** Bytes of longer bodies that a listener holds at a time. */
const ROOM_BYTES = 256 * 1024 * 1024

const NO_ROOM = new HttpRefusal(
  503,
  'BODIES_BUSY',
  'too many long bodies are arriving or being worked on; try again later',
)

/** What one body counts. */
interface Reservation {
  /** Counts `bytes` if that is more than before; returns the refusal when there is no room. */
  raise(bytes: number): HttpRefusal | null
}

const reservations = new WeakMap<IncomingMessage, Reservation>()

/** What the body of `request` counts, if it is counted. */
export function reservationOf(request: IncomingMessage): Reservation | undefined {
  return reservations.get(request)
}

/**
 * What the bodies of a listener may take of its memory together: each is bounded by itself, but a
 * thousand connections could bring one each.
 */
export class BodyRoom {
  readonly #roomBytes: number
  #held = 0

  constructor(roomBytes = ROOM_BYTES) {
    this.#roomBytes = roomBytes
  }

  /** Whether a body is long enough to be counted. */
  isCounted({ length, transfer }: FormHeaders): boolean {
    // Not a number: what is no length is refused further on.
    return transfer !== undefined || Number(length ?? 0) > SMALL_BYTES
  }

  /**
   * Takes room for a body until its reply is over; says why not, when there is none. A body longer than
   * `bytesMax` is refused before it is read, and needs none.
   */
  take(
    { length, transfer }: FormHeaders,
    bytesMax: number,
    response: ServerResponse<IncomingMessage>,
  ): HttpRefusal | null {
    const announced = transfer === undefined ? Number(length) : UNANNOUNCED_BYTES
    if (announced > bytesMax && transfer === undefined) return null
    let reserved = 0
    const raise = (bytes: number) => {
      if (bytes <= reserved) return null
      if (this.#held + bytes - reserved > this.#roomBytes) return NO_ROOM
      this.#held += bytes - reserved
      reserved = bytes
      return null
    }
    reservations.set(response.req, { raise })
    response.once('close', () => {
      this.#held -= reserved
    })
    return raise(Math.min(announced, bytesMax))
  }
}
