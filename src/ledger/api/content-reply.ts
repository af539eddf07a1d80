import type { ServerResponse } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from '../../base/shape.ts'
import type { Attachment } from '../../chain/index.ts'
import { HttpRefusal, type ReplyBudget, varyByOrigin } from '../../http/index.ts'
import type { OpenBlob } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { Precondition } from '../write/request-conditions.ts'
import { readPrecondition, readStatus } from './conditions.ts'

/** A reply is aborted if the client makes no progress for this number of request timeouts. */
const STALLED_WINDOWS_MAX = 2
/** Values of `Sec-Fetch-Dest` for which a browser would execute the bytes or apply them to a page. */
const EXECUTING_DESTINATIONS = new Set([
  ...['audioworklet', 'embed', 'manifest', 'object', 'paintworklet', 'script', 'serviceworker'],
  ...['sharedworker', 'style', 'worker', 'xslt'],
])

const UNMATCHED = new HttpRefusal(412, 'PRECONDITION_FAILED', 'the attachment has changed')
const NO_SUCH_RANGE = new HttpRefusal(
  416,
  'RANGE_UNSATISFIABLE',
  'the attachment has no byte in this range',
)

/** Returns the conditions and the ranges of a request for an attachment. Errors: PRECONDITION_INVALID. */
export function readContentRequest(request: Pick<FastifyRequest, 'headers'>): ContentRequest {
  const { 'if-range': ifRange, range } = request.headers
  const precondition = readPrecondition(request)
  return {
    precondition,
    'if-range': typeof ifRange === 'string' ? ifRange : undefined,
    range,
  }
}

/** Rejects a request if the browser would execute the bytes. Errors: HttpRefusal (403). */
export function rejectExecution(headers: Readonly<Record<string, unknown>>): void {
  const destination = headers['sec-fetch-dest']
  if (typeof destination !== 'string' || !EXECUTING_DESTINATIONS.has(destination)) return
  throw new HttpRefusal(
    403,
    'ATTACHMENT_NOT_CODE',
    'an attachment cannot be loaded as a script, a style or a frame of a page',
  )
}

/** Sends the requested part of `attachment` from `blob`, then closes `blob`. Errors: HttpRefusal (412, 416). */
export async function sendAttachment(
  request: Pick<FastifyRequest, 'server' | 'reportFailure'>,
  reply: FastifyReply,
  {
    requested,
    attachment,
    blob,
  }: { requested: ContentRequest; attachment: Attachment; blob: OpenBlob },
): Promise<FastifyReply> {
  const { status, headers: own, pieces } = contentReplyTo(requested, attachment)
  reply.code(status).headers(own)
  if (pieces.length > 0) {
    const { replyBudget } = request.server
    try {
      replyBudget.require(2 * BLOCK_BYTES)
    } catch (error) {
      await blob.close()
      throw error
    }
    replyBudget.set(reply.raw, 2 * BLOCK_BYTES)
    varyByOrigin(reply)
    reply.hijack()
    reply.raw.setTimeout(STALLED_WINDOWS_MAX * request.server.server.requestTimeout)
    reply.raw.statusCode = status
    for (const [header, value] of Object.entries(reply.getHeaders())) {
      if (value !== undefined) reply.raw.setHeader(header, value)
    }
    await sendPieces(reply.raw, replyBudget, blob, pieces).catch((error) =>
      request.reportFailure(error),
    )
    return reply
  }
  await blob.close()
  if (status === 412) throw UNMATCHED
  if (status === 416) throw NO_SUCH_RANGE
  return reply.send()
}

interface ContentRequest {
  readonly precondition: Precondition | null
  readonly 'if-range'?: string | undefined
  readonly range?: string | undefined
}

interface ContentReply {
  readonly status: 200 | 206 | 304 | 412 | 416
  readonly headers: Readonly<Record<string, string>>
  readonly pieces: readonly Piece[]
}

/**
 * Headers that prevent browsers from executing uploaded bytes or showing them as a page of this origin: `nosniff`
 * forbids guessing another type, and `sandbox` isolates bytes that are shown anyway.
 */
const SAFETY_HEADERS = {
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; sandbox",
  'cross-origin-resource-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
} as const

/**
 * Builds the reply to a GET for `attachment`. The reply to a HEAD has the same status and headers.
 * Source: RFC 9110 sections 13.2.2 (order of conditions), 13.1.5 (If-Range) and 14.
 */
export function contentReplyTo(requested: ContentRequest, attachment: Attachment): ContentReply {
  const tag = formatTag(attachment)
  const headers = { etag: tag, 'accept-ranges': 'bytes' }
  const { precondition } = requested
  const status = precondition === null ? 200 : readStatus(precondition, attachment.sha256)
  if (status !== 200) return { status, headers, pieces: [] }

  const { length, name, content_type: type } = attachment
  const own = {
    ...headers,
    ...SAFETY_HEADERS,
    'content-disposition': formatDisposition(name),
    'repr-digest': digestHeader(attachment.sha256),
  }
  // If If-Range is not the current tag, for example a date, the reply has all bytes.
  const inTime = requested['if-range'] === undefined || requested['if-range'].trim() === tag
  const ranges =
    inTime && requested.range !== undefined ? parseRanges(requested.range, length) : null
  const [first, ...more] = ranges ?? []
  if (ranges === null) {
    const pieces = length === 0 ? [] : [{ start: 0, end: length - 1 }]
    const whole = { ...own, 'content-type': type, 'content-length': String(length) }
    return { status: 200, headers: whole, pieces }
  }
  if (first === undefined) {
    return { status: 416, headers: { 'content-range': `bytes */${length}` }, pieces: [] }
  }
  if (more.length > 0) return sendRanges(own, attachment, ranges)
  const part = {
    ...own,
    'content-type': type,
    'content-length': String(first.end - first.start + 1),
    'content-range': rangeText(first, length),
  }
  return { status: 206, headers: part, pieces: [first] }
}

function sendRanges(
  headers: Readonly<Record<string, string>>,
  { sha256, length, content_type: type }: Attachment,
  ranges: readonly ByteRange[],
): ContentReply {
  // Nobody can make bytes that contain their own SHA-256, so the boundary does not occur in them.
  const boundary = `part-${sha256.slice(0, 48)}`
  const pieces = ranges.flatMap((range): Piece[] => [
    `\r\n--${boundary}\r\nContent-Type: ${type}\r\nContent-Range: ${rangeText(range, length)}\r\n\r\n`,
    range,
  ])
  pieces.push(`\r\n--${boundary}--\r\n`)
  const bytes = pieces.reduce(
    (sum, piece) => sum + (typeof piece === 'string' ? piece.length : piece.end - piece.start + 1),
    0,
  )
  return {
    status: 206,
    headers: {
      ...headers,
      'content-type': `multipart/byteranges; boundary=${boundary}`,
      'content-length': String(bytes),
    },
    pieces,
  }
}

function rangeText({ start, end }: ByteRange, length: number): string {
  return `bytes ${start}-${end}/${length}`
}

/**
 * Returns a `Content-Disposition` that saves a file as `name`. A name that is not plain ASCII is sent twice: in ASCII
 * for older programs, then encoded (RFC 8187 section 3.2). Source: RFC 6266 section 4.
 */
function formatDisposition(name: string): string {
  const plain = name.replace(/[^\x20-\x7e]|["\\%]/gu, '_')
  const first = `attachment; filename="${plain}"`
  if (plain === name) return first
  const encoded = encodeURIComponent(name).replace(
    /[*'()]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `${first}; filename*=UTF-8''${encoded}`
}

/** A range of bytes; `end` is inclusive. */
interface ByteRange {
  readonly start: number
  readonly end: number
}

/** Maximum ranges of one request. A request with more ranges gets all bytes. */
const RANGES_MAX = 16

/**
 * Parses a `Range` header for an attachment of `length` bytes. Returns null if the reply must contain all bytes, and an
 * empty list if no range can be satisfied.
 *
 * The reply must contain all bytes if the header is malformed, has more than RANGES_MAX ranges, or selects more than
 * `length` bytes in total. Otherwise a small request with overlapping ranges would cause a large reply.
 * Source: RFC 9110 sections 14.1.2, 14.2 and 17.15.
 */
function parseRanges(header: string, length: number): ByteRange[] | null {
  const [, list] = /^bytes=(.*)$/i.exec(header) ?? []
  if (list === undefined) return null
  const ranges: ByteRange[] = []
  let count = 0
  for (const text of list.split(',')) {
    const part = text.trim()
    if (part === '') continue
    const [, first = '', last = ''] = /^(\d*)-(\d*)$/.exec(part) ?? []
    if (first === '' && last === '') return null
    count += 1
    if (first === '') {
      const suffix = Math.min(Number(last), length)
      if (suffix > 0) ranges.push({ start: length - suffix, end: length - 1 })
      continue
    }
    if (last !== '' && Number(last) < Number(first)) return null
    const start = Number(first)
    const end = last === '' ? length - 1 : Math.min(Number(last), length - 1)
    if (start < length) ranges.push({ start, end })
  }
  if (count === 0 || count > RANGES_MAX) return null
  const requested = ranges.reduce((sum, { start, end }) => sum + end - start + 1, 0)
  return requested > length ? null : ranges
}

const BLOCK_BYTES = 256 * 1024

/** A text between two ranges, or a range of the blob. */
type Piece = string | ByteRange

/**
 * Sends `pieces` with backpressure, ends the response, and closes the blob. If the blob cannot be read or the client
 * disconnects, closes the connection.
 *
 * Uses two buffers in turn: one is filled from the blob while the other is sent. A stream would allocate new buffers,
 * and needed about 80 MB more memory for an attachment of 1 GB.
 */
async function sendPieces(
  response: ServerResponse,
  budget: ReplyBudget,
  blob: OpenBlob,
  pieces: readonly Piece[],
): Promise<void> {
  const client = new Client(response, budget)
  try {
    let block = Buffer.allocUnsafeSlow(BLOCK_BYTES)
    let other = Buffer.allocUnsafeSlow(BLOCK_BYTES)
    for (const piece of pieces) {
      if (typeof piece === 'string') {
        await client.send(piece)
        continue
      }
      for (let at = piece.start; at <= piece.end; ) {
        const count = Math.min(BLOCK_BYTES, piece.end - at + 1)
        const bytesRead = await blob.read(block.subarray(0, count), at)
        if (bytesRead === 0) {
          throw new LedgerError(
            'ATTACHMENT_LOST',
            'the stored blob is shorter than recorded; run daicho verify',
          )
        }
        at += bytesRead
        // Resolves when the previous bytes are written, so the buffer `other` is free.
        await client.send(block.subarray(0, bytesRead))
        ;[block, other] = [other, block]
      }
    }
    await client.end()
  } catch (error) {
    response.destroy()
    if (!client.isGone) throw error
  } finally {
    client.leave()
    await blob.close()
  }
}

/** Writes to a response with backpressure. */
class Client {
  isGone = false
  readonly #response: ServerResponse
  readonly #budget: ReplyBudget
  /** Settles when the bytes of the last `send` are passed to the operating system. */
  #sent: Promise<void> = Promise.resolve()
  #fail: (() => void) | null = null

  constructor(response: ServerResponse, budget: ReplyBudget) {
    this.#response = response
    this.#budget = budget
    if (response.req.socket.destroyed) this.isGone = true
    // Observes the socket, because a pipelined response that waits for earlier responses gets no event on a disconnect.
    response.req.socket.once('close', this.#close)
  }

  /** Writes `bytes` when the previous bytes are sent. Rejects if the client has disconnected. */
  async send(bytes: string | Uint8Array): Promise<void> {
    await this.#sent
    if (this.isGone) throw new Error('the client has disconnected')
    this.#sent = new Promise((resolve, reject) => {
      this.#fail = () => reject(new Error('the client has disconnected'))
      this.#response.write(bytes, (error) => {
        this.#budget.progress(this.#response)
        if (error) this.#close()
        else resolve()
      })
    })
    this.#sent.catch(() => {})
  }

  async end(): Promise<void> {
    await this.#sent
    this.#response.end()
  }

  leave(): void {
    this.#response.req.socket.off('close', this.#close)
  }

  readonly #close = (): void => {
    this.isGone = true
    this.#fail?.()
  }
}

/** Returns the strong entity tag of an attachment, quoted as in a header. */
export function formatTag({ sha256 }: Pick<Attachment, 'sha256'>): string {
  return `"${sha256}"`
}

/** Schema of a request or reply body of any media type. */
export const AnyBytes = (description: string) => ({
  description,
  content: { '*/*': { schema: Type.Unsafe<unknown>({ description: 'Any bytes' }) } },
})

function digestHeader(sha256: string): string {
  return `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:`
}
