import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { parseStrictJson } from '../base/strict-json.ts'
import type { HttpApp } from './component.ts'
import { HttpRefusal } from './refusal.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Connections whose request body is paced by `arrivingBody` instead of the request timeout. */
    pacedSockets: WeakSet<Duplex>
  }
}

/** Pieces of a body that are handled before other connections get their turn. */
const PIECES_PER_TURN = 256
/** Initial buffer for a body of unknown length; doubled as often as needed. */
const FIRST_BYTES = 16 * 1024
/** A piece shorter than this costs more memory than its bytes. */
const SMALL_PIECE_BYTES = 1_024
const JSON_TYPES = ['application/json', 'application/merge-patch+json']

const TOO_LARGE = new HttpRefusal(
  413,
  'BODY_TOO_LARGE',
  'the request body is longer than this address takes',
)
const LENGTH_WRONG = new HttpRefusal(
  400,
  'CONTENT_LENGTH_WRONG',
  'the body is not as long as Content-Length says',
)
const INCOMPLETE = new HttpRefusal(400, 'BODY_INCOMPLETE', 'the body broke off')
const STALLED = new HttpRefusal(408, 'REQUEST_TIMEOUT', 'the request took too long to arrive')
const NOT_JSON = new HttpRefusal(
  415,
  'CONTENT_TYPE_UNKNOWN',
  'send the body as Content-Type: application/json',
)
const NULL_BODY = new HttpRefusal(400, 'REQUEST_INVALID', 'the body is null: send an object')

/**
 * Reads nothing from `socket` until the returned function is called. Node resumes connections by itself, for
 * example after each reply, hence the listener.
 */
export function holdSocket(socket: Socket): () => void {
  const pause = () => void socket.pause()
  socket.on('resume', pause)
  socket.pause()
  return () => {
    // The listener of another hold pauses the socket again.
    socket.off('resume', pause).resume()
  }
}

/**
 * Returns a function to call for each piece of a body. A turn of the event loop takes up to 2 MiB from one
 * connection; in one-byte chunks that is half a second of work, so the rest is left for the next turn.
 */
export function pieceLimit({ socket }: IncomingMessage): () => void {
  let pieces = 0
  let isHeld = false
  return () => {
    pieces += 1
    if (isHeld || pieces % PIECES_PER_TURN !== 0 || !(socket instanceof Socket)) return
    isHeld = true
    const release = holdSocket(socket)
    setImmediate(() => {
      isHeld = false
      release()
    })
  }
}

/**
 * Reads the body of `request`, of at most `bytesMax` bytes. Each piece is copied into one buffer when it
 * arrives: a piece costs hundreds of bytes, so a list of one-byte pieces would exceed any limit of bytes.
 *
 * Errors: HttpRefusal BODY_TOO_LARGE (413), CONTENT_LENGTH_WRONG (400), BODY_INCOMPLETE (400), BODIES_BUSY (503).
 */
export function readBody(
  request: Pick<FastifyRequest, 'raw' | 'headers' | 'routeOptions' | 'growBody'>,
  bytesMax: number = request.routeOptions.bodyLimit,
): Promise<Buffer> {
  const { raw, headers, growBody } = request
  const announced = headers['content-length']
  const length = announced === undefined ? null : Number(announced)
  if (length !== null && length > bytesMax) return Promise.reject(TOO_LARGE)
  // A request without a body is not a stream and emits nothing (`optimizeEmptyRequests`).
  if (raw.readableEnded) return Promise.resolve(Buffer.alloc(0))
  return new Promise((resolve, reject) => {
    let buffer = Buffer.allocUnsafe(length ?? Math.min(FIRST_BYTES, bytesMax))
    let used = 0
    const settle = (error: Error | null) => {
      raw.off('data', add).off('end', end).off('error', breakOff).off('close', breakOff)
      if (error === null) resolve(used === buffer.length ? buffer : buffer.subarray(0, used))
      else reject(error)
    }
    const countPiece = pieceLimit(raw)
    const add = (piece: Buffer) => {
      countPiece()
      const needed = used + piece.length
      if (needed > bytesMax) return settle(TOO_LARGE)
      if (needed > buffer.length) {
        const bytes = Math.min(Math.max(2 * buffer.length, needed), bytesMax)
        const refusal = growBody?.(bytes)
        if (refusal) return settle(refusal)
        const larger = Buffer.allocUnsafe(bytes)
        buffer.copy(larger, 0, 0, used)
        buffer = larger
      }
      piece.copy(buffer, used)
      used = needed
    }
    const end = () => settle(length !== null && length !== used ? LENGTH_WRONG : null)
    const breakOff = () => settle(INCOMPLETE)
    raw.on('data', add).on('end', end).on('error', breakOff).on('close', breakOff)
  })
}

/**
 * Makes `app` accept only JSON bodies, by the strict rules of `parseStrictJson`, for components that store
 * and hash what they receive.
 *
 * The bytes decide whether there is a body: without any, `request.body` is undefined whatever the
 * Content-Type says. The four bytes `null` are refused (400): Fastify shows the absence of an optional
 * body to schemas and handlers as null, and would mix them up. Bytes not declared as JSON are refused
 * (415), because only such a request can come from a form of another site without a preflight.
 * Errors: StrictJsonError and HttpRefusal, for the component's error reply.
 */
export function takeStrictJson(app: HttpApp): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(JSON_TYPES, async (request: FastifyRequest) => {
    const body = await readBody(request)
    // A request without a route is refused for that, whatever its body contains.
    if (request.is404 || body.length === 0) return undefined
    const value = parseStrictJson(body)
    if (value === null) throw NULL_BODY
    return value
  })
  app.addContentTypeParser('*', async (request: FastifyRequest) => {
    const body = await readBody(request)
    if (body.length > 0 && !request.is404) throw NOT_JSON
  })
}

/** Slowest accepted rate: at least `bytesMin` within each `windowMs` in which the reader waits. */
export interface Pace {
  readonly windowMs: number
  readonly bytesMin: number
}

/**
 * Yields the body of `request` piece by piece, as fast as the reader takes it. `pace` applies instead of the
 * listener's time limit for whole requests. Bytes left unread when the reader stops are up to the reply.
 * A piece is valid until the next one is requested.
 * Errors: HttpRefusal REQUEST_TIMEOUT (408) for a body that stalls, BODY_INCOMPLETE (400) for one that breaks off.
 */
export async function* arrivingBody(
  request: Pick<FastifyRequest, 'raw' | 'server'>,
  pace: Pace,
): AsyncGenerator<Buffer> {
  const { socket } = request.raw
  const { pacedSockets } = request.server
  const pieces = new BodyPieces(request.raw)
  let bytes = 0
  let waited = true
  const watch = setInterval(() => {
    // While the reader is busy, the client is not to blame.
    if (waited && pieces.isAwaited && bytes < pace.bytesMin) pieces.fail(STALLED)
    waited = pieces.isAwaited
    bytes = 0
  }, pace.windowMs)
  pacedSockets.add(socket)
  try {
    for (let piece = await pieces.next(); piece !== null; piece = await pieces.next()) {
      bytes += piece.length
      yield piece
      if (socket instanceof Socket) freeMemory(piece)
    }
  } finally {
    clearInterval(watch)
    pacedSockets.delete(socket)
    pieces.stop()
  }
}

/**
 * Frees the memory of `piece` at once. It is outside the heap, where the garbage collector notices it late: a
 * gigabyte took some 60 MB more.
 */
function freeMemory({ buffer, byteLength }: Buffer): void {
  // A buffer that shares its memory with others must not be freed.
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0)
}

/** The pieces of a request's body, requested one at a time; the stream is paused in between. */
class BodyPieces {
  readonly #request: IncomingMessage
  readonly #pieces: Buffer[] = []
  readonly #countPiece: () => void
  /** Whether a piece was so short that the stream must not buffer more of them. */
  #isTiny = false
  #release: (() => void) | null = null
  #ended = false
  #failure: Error | null = null
  #wake: (() => void) | null = null

  constructor(request: IncomingMessage) {
    this.#request = request
    this.#countPiece = pieceLimit(request)
    if (request.readableEnded) this.#ended = true
    else if (request.destroyed) this.#failure = INCOMPLETE
    request.on('data', this.#add).on('end', this.#end).on('close', this.#break)
    request.on('error', this.#break).pause()
  }

  /** Whether the reader waits for the client. */
  get isAwaited(): boolean {
    return this.#wake !== null
  }

  /** Returns the next piece, or null after the last. Errors: the argument of `fail`; BODY_INCOMPLETE. */
  async next(): Promise<Buffer | null> {
    for (;;) {
      const piece = this.#pieces.shift()
      if (piece !== undefined) return piece
      if (this.#ended) return null
      if (this.#failure !== null) throw this.#failure
      await new Promise<void>((resolve) => {
        this.#wake = resolve
        this.#releaseSocket()
        // All buffered pieces as one; `resume` would give them one by one.
        if (this.#request.readableLength > 0) this.#request.read()
        else this.#request.resume()
      })
    }
  }

  /** Ends the wait with `error`. */
  fail(error: Error): void {
    this.#failure ??= error
    this.#wakeReader()
  }

  /** Leaves the rest of the body unread. The error listener stays: an unhandled error would end the process. */
  stop(): void {
    this.#request.off('data', this.#add).off('end', this.#end).off('close', this.#break)
    this.#releaseSocket()
    if (!this.#ended) this.#request.pause()
  }

  readonly #add = (piece: Buffer): void => {
    this.#pieces.push(piece)
    this.#countPiece()
    this.#request.pause()
    // While the reader is busy with a body in tiny pieces, no more of them are buffered.
    this.#isTiny ||= piece.length < SMALL_PIECE_BYTES
    const { socket } = this.#request
    if (this.#isTiny && socket instanceof Socket) this.#release ??= holdSocket(socket)
    this.#wakeReader()
  }

  #releaseSocket(): void {
    this.#release?.()
    this.#release = null
  }

  readonly #end = (): void => {
    this.#ended = true
    this.#wakeReader()
  }

  readonly #break = (): void => this.fail(INCOMPLETE)

  #wakeReader(): void {
    this.#wake?.()
    this.#wake = null
  }
}
