import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { parseStrictJson } from '../base/strict-json.ts'
import { OVERDUE } from './body-shares.ts'
import type { HttpApp } from './component.ts'
import { createRefusal } from './refusal.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Connections whose request body is limited by the `Pace` of `arrivingBody`, not by the request timeout. */
    pacedSockets: WeakSet<Duplex>
  }
}

/** Maximum number of pieces of a body handled in one event-loop iteration. */
const PIECES_PER_ITERATION = 256
/** Initial buffer size for a body of unknown length; doubled when full. */
const FIRST_BYTES = 16 * 1024
/** Pieces with fewer bytes are tiny: their buffer objects take more memory than the bytes. */
const SMALL_PIECE_BYTES = 1_024
const MERGE_PATCH = 'application/merge-patch+json'

const TOO_LARGE = createRefusal('BODY_TOO_LARGE')
const LENGTH_WRONG = createRefusal('CONTENT_LENGTH_WRONG')
const INCOMPLETE = createRefusal('BODY_INCOMPLETE')
const STALLED = createRefusal('REQUEST_TIMEOUT')
const NULL_BODY = createRefusal('REQUEST_INVALID', 'the body is null; send an object')
const NOT_JSON = createRefusal(
  'CONTENT_TYPE_UNKNOWN',
  'send the body as Content-Type: application/json',
)
const ONLY_PATCH = createRefusal(
  'CONTENT_TYPE_UNKNOWN',
  'a merge patch changes an item only with PATCH; send a whole item as Content-Type: application/json',
)

/**
 * Pauses `socket` until the returned function is called. Node resumes connections by itself, for example after
 * each reply, so a listener for `resume` pauses the connection again.
 */
export function holdSocket(socket: Socket): () => void {
  const pause = () => void socket.pause()
  socket.on('resume', pause)
  socket.pause()
  return () => {
    // If another caller has paused the socket too, that caller's listener pauses it again.
    socket.off('resume', pause).resume()
  }
}

/**
 * Returns a function to call for each piece of a body. After PIECES_PER_ITERATION pieces, the function postpones
 * further pieces to the next event-loop iteration. Otherwise one iteration could handle 2 MiB of one-byte chunks
 * from one connection, which takes half a second.
 */
export function pieceLimit({ socket }: IncomingMessage): () => void {
  let pieces = 0
  let isPaused = false
  return () => {
    pieces += 1
    if (isPaused || pieces % PIECES_PER_ITERATION !== 0 || !(socket instanceof Socket)) return
    isPaused = true
    const release = holdSocket(socket)
    setImmediate(() => {
      isPaused = false
      release()
    })
  }
}

/**
 * Reads the body of `request`, of at most `bytesMax` bytes. Each piece is copied into one buffer when it arrives,
 * because every piece has an overhead of hundreds of bytes and a list of one-byte pieces would take far more memory
 * than `bytesMax`.
 *
 * Errors: HttpRefusal BODY_TOO_LARGE (413), CONTENT_LENGTH_WRONG (400), BODY_INCOMPLETE (400), BODIES_BUSY (503),
 * REQUEST_TIMEOUT (408) if another request needs the memory of a slow body.
 */
export function readBody(
  request: Pick<FastifyRequest, 'raw' | 'headers' | 'routeOptions' | 'growBody'>,
  bytesMax: number = request.routeOptions.bodyLimit,
): Promise<Buffer> {
  const { raw, headers, growBody } = request
  const announced = headers['content-length']
  const length = announced === undefined ? null : Number(announced)
  if (length !== null && length > bytesMax) return Promise.reject(TOO_LARGE)
  // With `optimizeEmptyRequests`, a request without a body emits no event, so the promise below would never settle.
  if (raw.readableEnded) return Promise.resolve(Buffer.alloc(0))
  // The client may have disconnected during an earlier hook. Then no event follows.
  if (raw.destroyed) return Promise.reject(INCOMPLETE)
  return new Promise((resolve, reject) => {
    let buffer = Buffer.allocUnsafe(length ?? Math.min(FIRST_BYTES, bytesMax))
    let used = 0
    const settle = (error: Error | null) => {
      raw.off('data', add).off('end', end).off('error', breakOff).off('close', breakOff)
      raw.off(OVERDUE, expire)
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
    const expire = () => settle(STALLED)
    raw.on('data', add).on('end', end).on('error', breakOff).on('close', breakOff)
    raw.on(OVERDUE, expire)
  })
}

/**
 * Makes `app` accept only JSON bodies, read by `read`.
 *
 * An empty body leaves `request.body` undefined, for every Content-Type. The body `null` is rejected (400),
 * because Fastify also represents a missing optional body as null. Other content types are rejected (415),
 * because a form on another site could send them without a CORS preflight.
 * Errors: StrictJsonError and HttpRefusal, for the component's error reply.
 */
export function acceptStrictJson(
  app: HttpApp,
  read: (body: Buffer) => unknown = parseStrictJson,
): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(['application/json', MERGE_PATCH], async (request: FastifyRequest) => {
    const body = await readBody(request)
    // For a path without a route, the reply is 404, not an error about the body.
    if (request.is404 || body.length === 0) return undefined
    const isMergePatch = request.headers['content-type']?.toLowerCase().startsWith(MERGE_PATCH)
    if (isMergePatch && request.method !== 'PATCH') throw ONLY_PATCH
    const value = read(body)
    if (value === null) throw NULL_BODY
    return value
  })
  app.addContentTypeParser('*', async (request: FastifyRequest) => {
    const body = await readBody(request)
    if (body.length > 0 && !request.is404) throw NOT_JSON
  })
}

/** Minimum rate of a body: `bytesMin` within each `windowMs` in which the reader waits for the client. */
export interface Pace {
  readonly windowMs: number
  readonly bytesMin: number
}

/**
 * Yields the body of `request` piece by piece, at the speed of the reader. `pace` applies instead of the listener's
 * time limit for whole requests. If the reader stops early, `sendRefusal` discards the remaining pieces. A piece is
 * valid until the next piece is requested.
 * Errors: HttpRefusal REQUEST_TIMEOUT (408) for a body slower than `pace`, BODY_INCOMPLETE (400) if the connection
 * closes before the body is complete.
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
    // The pace is checked only while the reader waits, so that a slow reader does not fail the client.
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
 * Frees the memory of `piece` at once. The garbage collector frees such memory late, because it is outside the V8
 * heap. Without this function, an upload of one gigabyte needed 60 MB more.
 */
function freeMemory({ buffer, byteLength }: Buffer): void {
  // If the memory is shared with other buffers, it must not be freed.
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0)
}

/** Reads the pieces of a request's body one at a time. The stream is paused in between. */
class BodyPieces {
  readonly #request: IncomingMessage
  readonly #pieces: Buffer[] = []
  readonly #countPiece: () => void
  /** Whether a piece was shorter than SMALL_PIECE_BYTES. If so, the stream must not buffer pieces. */
  #hasTinyPieces = false
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
    request.on('error', this.#break).on(OVERDUE, this.#expire).pause()
  }

  /** Whether the reader waits for the client. */
  get isAwaited(): boolean {
    return this.#wake !== null
  }

  /** Returns the next piece, or null after the last piece. Errors: the argument of `fail`; BODY_INCOMPLETE. */
  async next(): Promise<Buffer | null> {
    for (;;) {
      const piece = this.#pieces.shift()
      if (piece !== undefined) return piece
      if (this.#ended) return null
      if (this.#failure !== null) throw this.#failure
      await new Promise<void>((resolve) => {
        this.#wake = resolve
        this.#releaseSocket()
        // `read` returns all buffered pieces as one buffer; `resume` would emit them one at a time.
        if (this.#request.readableLength > 0) this.#request.read()
        else this.#request.resume()
      })
    }
  }

  /** Makes the pending call of `next` reject with `error` or, if no call is pending, the following call. */
  fail(error: Error): void {
    this.#failure ??= error
    this.#wakeReader()
  }

  /** Stops reading. The `error` listener stays, because an unhandled error would stop the process. */
  stop(): void {
    this.#request.off('data', this.#add).off('end', this.#end).off('close', this.#break)
    this.#request.off(OVERDUE, this.#expire)
    this.#releaseSocket()
    if (!this.#ended) this.#request.pause()
  }

  readonly #add = (piece: Buffer): void => {
    this.#pieces.push(piece)
    this.#countPiece()
    this.#request.pause()
    // While the reader is busy with a body of tiny pieces, pauses the socket, so that no pieces are buffered.
    this.#hasTinyPieces ||= piece.length < SMALL_PIECE_BYTES
    const { socket } = this.#request
    if (this.#hasTinyPieces && socket instanceof Socket) this.#release ??= holdSocket(socket)
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

  readonly #expire = (): void => this.fail(STALLED)

  #wakeReader(): void {
    this.#wake?.()
    this.#wake = null
  }
}
