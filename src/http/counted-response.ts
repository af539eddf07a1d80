import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { ServerResponse } from './node-http.ts'
import type { ReplyRoom } from './reply-room.ts'
import type { Count } from './request-tally.ts'

/** The status that a request is counted under when its client went away before the reply. */
const CLIENT_GONE = 499

/**
 * A reply that is counted when it has ended, and whose pieces are counted while they wait. Listening for
 * that end cost each request several times what this does.
 */
export class CountedResponse<
  Request extends IncomingMessage = IncomingMessage,
> extends ServerResponse<Request> {
  /** How it is counted; set by the route that takes the request. */
  count: Count | null = null
  readonly startedAt = performance.now()
  /** Where what waits for the connection is counted; set by the listener. */
  room: ReplyRoom | null = null

  /** Of replies that are made piece by piece; the others are written with their end. */
  override write(chunk: unknown, encoding?: unknown, callback?: unknown): boolean {
    // Passed on as they came: either may be left out.
    const isTaken = super.write(chunk, encoding as BufferEncoding, callback as () => void)
    if (isTaken) return true
    const { room, req } = this
    const length = room?.given(req.socket, chunk) ?? 0
    if (length > 0) this.once('drain', () => room?.taken(req.socket, length))
    return false
  }

  /** Called when the last byte was handed over. */
  override detachSocket(socket: Socket): void {
    super.detachSocket(socket)
    this.#end(this.statusCode)
  }

  /** To be called when the connection has closed under it. */
  gone(): void {
    this.#end(CLIENT_GONE)
  }

  #end(status: number): void {
    this.count?.(status, performance.now() - this.startedAt)
    this.count = null
  }
}
