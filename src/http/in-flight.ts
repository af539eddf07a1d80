import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { CountedResponse } from './counted-response.ts'
import type { ReplyRoom } from './reply-room.ts'

type Response = ServerResponse<IncomingMessage>

/** The trackers of listeners, by their servers. */
const byServer = new WeakMap<Server, InFlight>()

/**
 * The requests that a listener is answering: one for each connection, since replies go out in order.
 *
 * Costs one entry in a map per request.
 */
export class InFlight {
  readonly #latest = new Map<Socket, Response>()

  /** One per server; `room` counts what its connections have not taken. */
  constructor(server: Server, room: ReplyRoom) {
    byServer.set(server, this)
    server.on('connection', (socket: Socket) => {
      socket.once('close', () => {
        const response = this.#latest.get(socket)
        if (response instanceof CountedResponse) response.gone()
        this.#latest.delete(socket)
        room.gone(socket)
      })
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
}
