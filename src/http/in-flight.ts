import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Count } from './request-tally.ts'

/** The status that a request is counted under when its client went away before the reply. */
const CLIENT_GONE = 499

type Response = ServerResponse<IncomingMessage>

/** The trackers of listeners, by their servers. */
const byServer = new WeakMap<Server, InFlight>()

/**
 * The requests that a listener is answering: one for each connection, since replies go out in order.
 *
 * Costs one entry in a map per request; only what is counted is also listened to.
 */
export class InFlight {
  readonly #latest = new Map<Socket, Response>()

  /** One per server. */
  constructor(server: Server) {
    byServer.set(server, this)
    server.on('connection', (socket: Socket) => {
      socket.once('close', () => this.#latest.delete(socket))
    })
  }

  /** The tracker of `server`, if it has one. */
  static of(server: Server): InFlight | undefined {
    return byServer.get(server)
  }

  /** The replies that are not sent to their end. */
  *replies(): Iterable<Response> {
    for (const response of this.#latest.values()) {
      if (!response.writableFinished) yield response
    }
  }

  /** Remembers `response`, the reply to the newest request on its connection. */
  add(response: Response): void {
    const { socket } = response.req
    // In tests without a socket there is nothing to drain.
    if (!socket.destroyed) this.#latest.set(socket, response)
  }

  /** When `response` has ended, it is counted by `count`. */
  countBy(response: Response, count: Count): void {
    const startedAt = performance.now()
    response.once('close', () => {
      const status = response.writableFinished ? response.statusCode : CLIENT_GONE
      count(status, performance.now() - startedAt)
    })
  }
}
