import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { HttpRefusal } from './refusal.ts'
import { hold, pieceLimit, release } from './socket-holds.ts'

/** A piece shorter than this costs more memory than its bytes. */
const SMALL_PIECE_BYTES = 1_024

/** Connections whose request may take as long as it goes on arriving. */
const unhurried = new WeakSet<Duplex>()

/** Whether the time limit for whole requests does not hold on `socket` for now. */
export function isUnhurried(socket: Duplex): boolean {
  return unhurried.has(socket)
}

/** How slowly a body may come: at least `bytesMin` within each `windowMs` that it is waited for. */
export interface Pace {
  readonly windowMs: number
  readonly bytesMin: number
}

/**
 * The body of `request` piece by piece, for routes that stream it: it is read as fast as it is taken,
 * and instead of the listener's time limit for whole requests, `pace` holds. What is left unread when
 * the reader stops is for the reply to deal with. A piece is gone when the next one is asked for.
 * Errors: HttpRefusal REQUEST_TIMEOUT (408) for a body that stalls, BODY_INCOMPLETE (400) for one
 * that breaks off.
 */
export async function* arrivingBody(request: IncomingMessage, pace: Pace): AsyncGenerator<Buffer> {
  const { socket } = request
  const arrived = new Arrived(request)
  let bytes = 0
  let waited = true
  const watch = setInterval(() => {
    // While the reader takes its time, the client is not to blame.
    if (waited && arrived.isAwaited && bytes < pace.bytesMin) arrived.fail(STALLED)
    waited = arrived.isAwaited
    bytes = 0
  }, pace.windowMs)
  unhurried.add(socket)
  try {
    for (let piece = await arrived.next(); piece !== null; piece = await arrived.next()) {
      bytes += piece.length
      yield piece
      if (socket instanceof Socket) free(piece)
    }
  } finally {
    clearInterval(watch)
    unhurried.delete(socket)
    arrived.leave()
  }
}

/**
 * Gives the memory of `piece` back at once. Its garbage is outside of the heap, where the collector
 * sees it late: a gigabyte took some 60 MB more.
 */
function free({ buffer, byteLength }: Buffer): void {
  // What it shares with others is not ours to free.
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0)
}

const STALLED = new HttpRefusal(408, 'REQUEST_TIMEOUT', 'the request took too long to arrive')
const BROKEN_OFF = new HttpRefusal(400, 'BODY_INCOMPLETE', 'the body broke off')

/** The pieces of a request's body, one asked for at a time; the stream stands still in between. */
class Arrived {
  readonly #request: IncomingMessage
  readonly #pieces: Buffer[] = []
  readonly #countPiece: () => void
  /** Whether a piece was so short that the stream must not buffer more of them. */
  #isTiny = false
  #isHeld = false
  #ended = false
  #failure: Error | null = null
  #wake: (() => void) | null = null

  constructor(request: IncomingMessage) {
    this.#request = request
    this.#countPiece = pieceLimit(request)
    if (request.readableEnded) this.#ended = true
    else if (request.destroyed) this.#failure = BROKEN_OFF
    request.on('data', this.#take).on('end', this.#end).on('close', this.#break)
    request.on('error', this.#break).pause()
  }

  /** Whether the reader waits for the client. */
  get isAwaited(): boolean {
    return this.#wake !== null
  }

  /** The next piece, or null after the last. Errors: what `fail` was given; BODY_INCOMPLETE. */
  async next(): Promise<Buffer | null> {
    for (;;) {
      const piece = this.#pieces.shift()
      if (piece !== undefined) return piece
      if (this.#ended) return null
      if (this.#failure !== null) throw this.#failure
      await new Promise<void>((resolve) => {
        this.#wake = resolve
        this.#letGo()
        // All buffered pieces as one; `resume` would give them one by one.
        if (this.#request.readableLength > 0) this.#request.read()
        else this.#request.resume()
      })
    }
  }

  /** Ends the waiting with `error`. */
  fail(error: Error): void {
    this.#failure ??= error
    this.#wakeUp()
  }

  /** Leaves the rest of the body where it is; errors of the connection stay heard. */
  leave(): void {
    this.#request.off('data', this.#take).off('end', this.#end).off('close', this.#break)
    this.#letGo()
    if (!this.#ended) this.#request.pause()
  }

  readonly #take = (piece: Buffer): void => {
    this.#pieces.push(piece)
    this.#countPiece()
    this.#request.pause()
    this.#holdAfter(piece)
    this.#wakeUp()
  }

  /** Reads nothing while the reader is busy with a body in tiny pieces. */
  #holdAfter({ length }: Buffer): void {
    const { socket } = this.#request
    this.#isTiny ||= length < SMALL_PIECE_BYTES
    if (this.#isHeld || !this.#isTiny || !(socket instanceof Socket)) return
    this.#isHeld = true
    hold(socket)
  }

  #letGo(): void {
    if (this.#isHeld) release(this.#request.socket)
    this.#isHeld = false
  }

  readonly #end = (): void => {
    this.#ended = true
    this.#wakeUp()
  }

  readonly #break = (): void => this.fail(BROKEN_OFF)

  #wakeUp(): void {
    this.#wake?.()
    this.#wake = null
  }
}
