import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { turn } from '../base/turn.ts'
import { holdSocket } from './body-readers.ts'
import { toClientKey } from './throttle.ts'

type Response = ServerResponse<IncomingMessage>

interface Connection {
  /** The client's address, as returned by `toClientKey`. */
  readonly client: string
  /** The reply to the newest request, whether or not that request has started. */
  latest: Response | null
  /** Number of pipelined requests waiting for an earlier reply. */
  waiting: number
  /** Resumes a paused connection; null unless the connection is paused. */
  release: (() => void) | null
  isUpgraded: boolean
}

/**
 * Maximum number of waiting pipelined requests on all connections. Above it, the connection that sends another
 * pipelined request is closed.
 */
const WAITING_MAX = 20_000

/**
 * The connections of a listener, each with at most one request in progress.
 *
 * When `max` connections are open and another connection arrives, let A be the client with the most connections. The
 * listener then closes the least recently used connection of the first kind in this list that exists:
 * 1. an idle connection of A;
 * 2. an idle connection of any client, unless the new connection is from A;
 * 3. a busy connection of A, if A has more than half of all connections and the new connection is not from A;
 * 4. the new connection. So no client can lock out others, but a reverse proxy, which appears as one client, can use
 *    all connections.
 *
 * A pipelined request starts after the previous reply was sent. While a request waits, its connection is paused, so
 * Node has parsed at most one read of 64 KiB, and the system buffers any further bytes.
 */
export class Connections {
  /** The open connections, least recently used first. */
  readonly #open = new Map<Socket, Connection>()
  readonly #clients = new Map<string, number>()
  readonly #max: number
  #waiting = 0

  constructor(server: Server, max: number) {
    this.#max = max
    server.on('connection', (socket: Socket) => {
      const client = toClientKey(socket.remoteAddress ?? '')
      if (this.#open.size >= max && !this.#closeOneFor(client)) {
        socket.destroy()
        return
      }
      this.#open.set(socket, { client, latest: null, waiting: 0, release: null, isUpgraded: false })
      this.#clients.set(client, (this.#clients.get(client) ?? 0) + 1)
      socket.once('close', () => this.#forget(socket))
    })
    server.on('upgrade', ({ socket }: IncomingMessage) => {
      const connection = this.#open.get(socket)
      if (connection !== undefined) connection.isUpgraded = true
    })
  }

  /** Yields the incomplete replies. */
  *pendingReplies(): Iterable<Response> {
    for (const { latest } of this.#open.values()) {
      if (latest?.writableFinished === false) yield latest
    }
  }

  /** Whether a reply on `socket` is incomplete. */
  isBusy(socket: Socket): boolean {
    return this.#open.get(socket)?.latest?.writableFinished === false
  }

  /** Whether `socket` is paused because of waiting pipelined requests. */
  isWaiting(socket: Socket): boolean {
    return (this.#open.get(socket)?.waiting ?? 0) > 0
  }

  /** Calls `start` when all earlier replies on the same connection were sent, unless the connection closes first. */
  add(response: Response, start: () => void): void {
    const { socket } = response.req
    const connection = this.#open.get(socket)
    // Injected requests (in tests) have no connection.
    const earlier = connection?.latest
    if (connection !== undefined) {
      connection.latest = response
      this.#open.delete(socket)
      this.#open.set(socket, connection)
    }
    if (connection === undefined || earlier?.writableFinished !== false) {
      start()
      return
    }
    if (this.#waiting === WAITING_MAX) {
      socket.destroy()
      return
    }
    connection.release ??= holdSocket(socket)
    connection.waiting += 1
    this.#waiting += 1
    earlier.once('close', () => {
      if (!this.#open.has(socket)) return
      connection.waiting -= 1
      this.#waiting -= 1
      if (connection.waiting === 0) {
        connection.release?.()
        connection.release = null
      }
      // Other requests are served between two pipelined requests, even if both are answered at once.
      void turn().then(() => {
        if (this.#open.has(socket)) start()
      })
    })
  }

  /** Closes a connection so that `client` can open a connection; returns false if no connection may be closed. */
  #closeOneFor(client: string): boolean {
    const [largest, most] = [...this.#clients].reduce((a, b) => (b[1] > a[1] ? b : a), ['', 0])
    const isIdle = ({ latest, isUpgraded }: Connection) =>
      latest?.writableFinished !== false && !isUpgraded
    const ofLargest = (connection: Connection) => connection.client === largest
    const victim =
      this.#oldest((connection) => ofLargest(connection) && isIdle(connection)) ??
      (client === largest ? null : this.#oldest(isIdle)) ??
      (client === largest || most <= this.#max / 2 ? null : this.#oldest(ofLargest))
    if (victim === null) return false
    this.#forget(victim)
    victim.destroy()
    return true
  }

  /** Returns the least recently used connection that `matches`, or null. */
  #oldest(matches: (connection: Connection) => boolean): Socket | null {
    for (const [socket, connection] of this.#open) {
      if (matches(connection)) return socket
    }
    return null
  }

  #forget(socket: Socket): void {
    const connection = this.#open.get(socket)
    if (connection === undefined) return
    const { client, waiting } = connection
    this.#open.delete(socket)
    this.#waiting -= waiting
    const left = (this.#clients.get(client) ?? 1) - 1
    if (left === 0) this.#clients.delete(client)
    else this.#clients.set(client, left)
  }
}
