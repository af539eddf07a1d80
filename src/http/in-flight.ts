import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Count } from './request-tally.ts'

/** The status that a request is counted under when its client went away before the reply. */
const CLIENT_GONE = 499

/** What is remembered of a request while it is answered. */
interface Tracked {
  readonly startedAt: number
  count: Count | null
}

type Response = ServerResponse<IncomingMessage>

/** The trackers of listeners, by their servers. */
const byServer = new WeakMap<Server, InFlight>()

/**
 * The requests that a listener is answering, from their headers to the end of their replies.
 *
 * One listener on each response serves both who must wait for them and who counts them.
 */
export class InFlight {
  readonly #tracked = new Map<Response, Tracked>()
  readonly #ended: (this: Response) => void

  /** One per server. */
  constructor(server: Server) {
    byServer.set(server, this)
    const tracked = this.#tracked
    this.#ended = function ended() {
      const was = tracked.get(this)
      tracked.delete(this)
      if (was?.count == null) return
      const status = this.writableFinished ? this.statusCode : CLIENT_GONE
      was.count(status, performance.now() - was.startedAt)
    }
  }

  /** The tracker of `server`, if it has one. */
  static of(server: Server): InFlight | undefined {
    return byServer.get(server)
  }

  /** The replies that are not sent to their end. */
  replies(): Iterable<Response> {
    return this.#tracked.keys()
  }

  /** Remembers `response` until it is sent or its client has gone. */
  add(response: Response): void {
    this.#tracked.set(response, { startedAt: performance.now(), count: null })
    response.once('close', this.#ended)
  }

  /** When `response` has ended, it is counted by `count`. */
  countBy(response: Response, count: Count): void {
    const tracked = this.#tracked.get(response)
    if (tracked !== undefined) tracked.count = count
  }
}
