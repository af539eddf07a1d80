import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Refusal } from './component.ts'
import type { FormHeaders } from './request-form.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route reads its body piece by piece and keeps none of it. */
    streamsBody?: boolean
  }
}

/** Bodies up to this long are not counted: `socketsMax` bounds how many there are. */
const SMALL_BYTES = 64 * 1024
/** What a body counts that does not say how long it is; few are long. */
const UNANNOUNCED_BYTES = 1024 * 1024
/** Bytes of longer bodies that a listener holds at a time. */
const ROOM_BYTES = 256 * 1024 * 1024

const NO_ROOM: Refusal = {
  status: 503,
  code: 'BODIES_BUSY',
  message: 'too many long bodies are arriving or being worked on; try again later',
}

/**
 * What the bodies of a listener may take of its memory together: each is bounded by itself, but a
 * thousand connections could bring one each.
 */
export class BodyRoom {
  readonly #bodyBytesMax: number
  readonly #roomBytes: number
  #held = 0

  /** `bodyBytesMax` is how long one may be: a longer one is refused before it is read. */
  constructor(bodyBytesMax: number, roomBytes = ROOM_BYTES) {
    this.#bodyBytesMax = bodyBytesMax
    this.#roomBytes = Math.max(roomBytes, bodyBytesMax)
  }

  /** Whether a body is long enough to be counted. */
  isCounted({ length, transfer }: FormHeaders): boolean {
    // Not a number: what is no length is refused further on.
    return transfer !== undefined || Number(length ?? 0) > SMALL_BYTES
  }

  /** Takes room for a body until its reply is over; says why not, when there is none. */
  take(
    { length, transfer }: FormHeaders,
    response: ServerResponse<IncomingMessage>,
  ): Refusal | null {
    const announced = transfer === undefined ? Number(length) : UNANNOUNCED_BYTES
    if (announced > this.#bodyBytesMax) return null
    if (this.#held + announced > this.#roomBytes) return NO_ROOM
    this.#held += announced
    response.once('close', () => {
      this.#held -= announced
    })
    return null
  }
}
