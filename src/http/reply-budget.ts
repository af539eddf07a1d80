import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { type Clock, monotonicClock } from '../base/clock.ts'
import { turn } from '../base/turn.ts'
import { createRefusal } from './refusal.ts'

/** Bytes up to which a reply is always sent, because the number of connections is limited. */
const SHORT_BYTES = 16 * 1024
/** Characters or bytes passed to the connection at once. */
const SLICE_LENGTH = 64 * 1024
/** Maximum unsent bytes of all long replies of a process. */
const UNSENT_BYTES_MAX = 128 * 1024 * 1024
/** Maximum number of replies that wait for room. Up to three slices of each are not counted. */
const WAITING_MAX = 500
/** Time without progress after which a reply is aborted if others need its room, milliseconds. */
const STALLED_MS = 10_000
/** Maximum number of replies that are compressed as streams at the same time. Each takes up to a megabyte. */
const COMPRESSIONS_MAX = 32
/** Interval of the search for stalled replies while other replies wait, milliseconds. */
const SEARCH_MS = 1_000

const BUSY = createRefusal('REPLIES_BUSY')

/**
 * Limits the unsent bytes of all long replies of a process.
 *
 * A streamed reply reads its next part when its client has accepted the previous part and the budget has room: one
 * reply per event-loop iteration, so the budget is exceeded by a few parts at most. A reply whose first part finds no
 * room is refused (503), and so are whole replies. When room is needed, replies whose clients have accepted nothing for
 * STALLED_MS are aborted.
 */
export class ReplyBudget {
  readonly #max: number
  readonly #clock: Clock
  readonly #replies = new Map<ServerResponse, Unsent>()
  readonly #waiting: (() => void)[] = []
  #bytes = 0
  #compressions = 0
  #search: NodeJS.Timeout | null = null

  constructor(bytesMax: number = UNSENT_BYTES_MAX, clock: Clock = monotonicClock) {
    this.#max = bytesMax
    this.#clock = clock
  }

  /** Whether `require` may throw, because long replies are unsent. */
  get isInUse(): boolean {
    return this.#bytes > 0
  }

  /** Whether `response` may be compressed as a stream. It counts until it closes. */
  startCompression(response: ServerResponse): boolean {
    if (this.#compressions >= COMPRESSIONS_MAX || response.closed || response.destroyed)
      return false
    this.#compressions += 1
    response.once('close', () => {
      this.#compressions -= 1
    })
    return true
  }

  /** Throws unless there is room for `bytes`, or no other long reply is unsent. Errors: HttpRefusal (503). */
  require(bytes: number): void {
    if (bytes > SHORT_BYTES && this.#bytes > 0 && !this.#hasRoom(bytes)) throw BUSY
  }

  /** Sets the unsent bytes of `response`, which are counted until it closes. Every call counts as progress. */
  set(response: ServerResponse, bytes: number, isRead = true): void {
    if (response.closed || response.destroyed) return
    const before = this.#replies.get(response)
    if (before === undefined) response.once('close', () => this.#forget(response))
    this.#replies.set(response, { bytes, sinceMs: isRead ? this.#clock.now() : null })
    this.#bytes += bytes - (before?.bytes ?? 0)
    this.#wake()
  }

  /** Notes that the client of `response` has accepted a part of the unsent bytes. */
  progress(response: ServerResponse): void {
    const unsent = this.#replies.get(response)
    if (unsent !== undefined) unsent.sinceMs = this.#clock.now()
  }

  /** Resolves to true when `response` may read its next part, or to false if its client has disconnected. Errors: 503. */
  async room(response: ServerResponse): Promise<boolean> {
    for (;;) {
      await turn()
      if (response.closed || response.destroyed) {
        this.#wake()
        return false
      }
      if (this.#hasRoom(0)) return true
      if (this.#waiting.length === WAITING_MAX) throw BUSY
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve)
        this.#search ??= setTimeout(this.#onSearch, SEARCH_MS).unref()
      })
    }
  }

  /** Whether there is room for `bytes`, after stalled replies have been aborted if necessary. */
  #hasRoom(bytes: number): boolean {
    if (this.#bytes + bytes <= this.#max) return true
    const stalledMs = this.#clock.now() - STALLED_MS
    for (const [response, { bytes: unsent, sinceMs }] of this.#replies) {
      if (unsent === 0 || sinceMs === null || sinceMs > stalledMs) continue
      this.#forget(response)
      response.destroy()
      if (this.#bytes + bytes <= this.#max) return true
    }
    return false
  }

  readonly #onSearch = (): void => {
    this.#search = null
    if (this.#hasRoom(0)) this.#wake()
    if (this.#waiting.length > 0) this.#search = setTimeout(this.#onSearch, SEARCH_MS).unref()
  }

  #forget(response: ServerResponse): void {
    this.#bytes -= this.#replies.get(response)?.bytes ?? 0
    this.#replies.delete(response)
    this.#wake()
  }

  /** Lets the reply that waits longest check again. If it finds room, its next call of `set` wakes the next reply. */
  #wake(): void {
    if (this.#bytes <= this.#max) this.#waiting.shift()?.()
  }
}

/** The unsent bytes of a reply. */
interface Unsent {
  readonly bytes: number
  /** Time of the last progress of the client; null while the reply reads a part. */
  sinceMs: number | null
}

interface Destination {
  readonly response: ServerResponse
  readonly budget: ReplyBudget
}

/** A part of a reply. An array is sent text by text, and emptied. */
type Part = string | Uint8Array | string[]

/**
 * A reply whose unsent bytes a `ReplyBudget` counts. Reads a part only when the client has accepted the previous part,
 * so one part is in memory at a time. Encodes a text slice by slice, so no second copy of it is in memory. Nothing is
 * read for a request with HEAD.
 */
export class ReplyStream extends Readable {
  readonly #parts: AsyncIterator<Part>
  /** The unsent texts and bytes of the current part. The first is sent up to `#at`. */
  #unsent: (string | Uint8Array)[] = []
  #at = 0
  /** Bytes of all parts so far, and of the largest. */
  #bytes = 0
  #partBytesMax = 0
  #isComplete = false
  #to: Destination | null = null

  constructor(parts: AsyncIterable<Part>) {
    super({ highWaterMark: SLICE_LENGTH })
    this.#parts = parts[Symbol.asyncIterator]()
  }

  /** Resolves to whether the reply has at least `length` bytes, once this is known. Errors: those of its parts. */
  exceeds(length: number): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const check = () => {
        if (this.#bytes < length && !this.#isComplete && !this.destroyed) return
        this.off('error', reject).off('readable', check)
        resolve(this.#bytes >= length)
      }
      this.once('error', reject)
      // Also lets the stream read until its buffer is full.
      this.on('readable', check)
      check()
    })
  }

  /** Counts the unsent bytes in `budget` from now on. `first` is a part that precedes the others. */
  start(response: ServerResponse, budget: ReplyBudget, first?: string | Uint8Array): this {
    this.#to = { response, budget }
    if (first !== undefined) this.#begin([first], Buffer.byteLength(first))
    return this
  }

  override _read(): void {
    // One slice per event-loop iteration, because a client that reads quickly would take all slices in one.
    if (this.#unsent.length > 0) setImmediate(() => this.#sendSlice())
    else this.#readPart().catch((error) => this.destroy(error))
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    this.#unsent = []
    const done = () => callback(error)
    Promise.resolve(this.#parts.return?.()).then(done, done)
  }

  async #readPart(): Promise<void> {
    const to = this.#to
    const isShort = this.#bytes <= SHORT_BYTES
    if (to !== null && !isShort) {
      to.budget.set(to.response, 0)
      if (!(await to.budget.room(to.response))) return
      to.budget.set(to.response, this.#partBytesMax, false)
    }
    for (;;) {
      const { done, value } = await this.#parts.next()
      if (this.destroyed) return
      if (done === true) {
        to?.budget.set(to.response, SLICE_LENGTH)
        this.#isComplete = true
        this.push(null)
        return
      }
      const unsent = Array.isArray(value) ? joinTexts(value.splice(0)) : [value]
      const bytes = unsent.reduce((sum, each) => sum + Buffer.byteLength(each), 0)
      if (bytes === 0) continue
      // After a short beginning, e.g. of a list that ends here, the reply has not waited for room.
      if (isShort) to?.budget.require(bytes)
      this.#begin(unsent, bytes)
      this.#sendSlice()
      return
    }
  }

  #begin(unsent: (string | Uint8Array)[], bytes: number): void {
    this.#unsent = unsent
    this.#bytes += bytes
    this.#partBytesMax = Math.max(this.#partBytesMax, bytes)
    this.#to?.budget.set(this.#to.response, bytes)
  }

  #sendSlice(): void {
    if (this.destroyed) return
    this.#to?.budget.progress(this.#to.response)
    const [first = ''] = this.#unsent
    let end = Math.min(this.#at + SLICE_LENGTH, first.length)
    // A slice must not end between the halves of a character.
    if (typeof first === 'string' && end < first.length && isHighSurrogate(first, end - 1)) end += 1
    const slice =
      typeof first === 'string'
        ? Buffer.from(first.slice(this.#at, end))
        : first.subarray(this.#at, end)
    this.#at = end
    if (end === first.length) {
      this.#unsent.shift()
      this.#at = 0
    }
    if (slice.length > 0 || this.#unsent.length === 0) this.push(slice)
    else this.#sendSlice()
  }
}

/** Joins neighbouring short texts. A long text stays alone, because joining would copy it. */
function joinTexts(texts: readonly string[]): string[] {
  const result: string[] = []
  let short = ''
  for (const text of texts) {
    if (text.length < SLICE_LENGTH) short += text
    else result.push(short, text)
    if (text.length >= SLICE_LENGTH) short = ''
  }
  return [...result, short]
}

function isHighSurrogate(text: string, at: number): boolean {
  const unit = text.charCodeAt(at)
  return unit >= 0xd800 && unit < 0xdc00
}

/**
 * Returns the payload to send instead of `payload`: a stream that `budget` counts, or `payload` itself if it is short.
 * The payload of a HEAD is read no further. Sets the header `Content-Length` of a whole reply that becomes a stream.
 * Errors: HttpRefusal (503).
 */
export function countedPayload(
  budget: ReplyBudget,
  payload: unknown,
  reply: FastifyReply,
): unknown {
  const { raw: response } = reply
  const isHead = response.req.method === 'HEAD'
  if (payload instanceof Readable) {
    if (!isHead) {
      const stream = payload instanceof ReplyStream ? payload : new ReplyStream(payload)
      return stream.start(response, budget)
    }
    payload.destroy()
    return Readable.from([])
  }
  // Otherwise Fastify would send `Content-Length: 0`, which is not the length of the GET (RFC 9110, section 8.6).
  if (isHead) return payload ?? Readable.from([])
  if (typeof payload !== 'string' && !(payload instanceof Uint8Array)) return payload
  if (payload.length * 3 <= SHORT_BYTES) return payload
  const length = Buffer.byteLength(payload)
  if (length <= SHORT_BYTES) return payload
  budget.require(length)
  const stream = new ReplyStream(NO_PARTS).start(response, budget, payload)
  reply.header('content-length', length)
  return stream
}

const NO_PARTS: AsyncIterable<string> = { async *[Symbol.asyncIterator]() {} }
