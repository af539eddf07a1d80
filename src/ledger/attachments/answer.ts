import type { Attachment } from '../../chain/index.ts'
import { readStatus } from '../terms/precondition.ts'
import type { Precondition } from '../terms/terms.ts'
import { tagOf } from './conditions.ts'
import { digestHeader } from './digest.ts'
import { dispositionOf } from './disposition.ts'
import { type ByteRange, rangesOf } from './ranges.ts'
import type { Piece } from './send-pieces.ts'

/** What a request for an attachment says beside its path. */
export interface Asked {
  readonly precondition: Precondition | null
  readonly 'if-range'?: string | undefined
  readonly range?: string | undefined
}

/** What is sent for it. */
export interface Answer {
  readonly status: 200 | 206 | 304 | 412 | 416
  readonly headers: Readonly<Record<string, string>>
  /** Of the content; empty where nothing of it is sent. */
  readonly pieces: readonly Piece[]
}

/**
 * What was uploaded is never run or shown as a page of this address: it is saved, taken for the type
 * it was declared as, and where a browser shows it all the same, it may do nothing.
 */
const HARMLESS = {
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; sandbox",
  'cross-origin-resource-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
} as const

/**
 * The answer to a GET (or, without its pieces and ranges, to a HEAD) for `attachment`.
 * Source: RFC 9110 sections 13.2.2 (the order of conditions), 13.1.5 (If-Range) and 14.
 */
export function answerOf(asked: Asked, attachment: Attachment): Answer {
  const tag = tagOf(attachment)
  const headers = { etag: tag, 'cache-control': 'no-cache', 'accept-ranges': 'bytes' }
  const { precondition } = asked
  const status = precondition === null ? 200 : readStatus(precondition, attachment.sha256)
  if (status !== 200) return { status, headers, pieces: [] }

  const { length, name, content_type: type } = attachment
  const own = {
    ...headers,
    ...HARMLESS,
    'content-disposition': dispositionOf(name),
    'repr-digest': digestHeader(attachment.sha256),
  }
  // A tag that is not the present one, or a date, asks for the whole.
  const inTime = asked['if-range'] === undefined || asked['if-range'].trim() === tag
  const ranges = inTime && asked.range !== undefined ? rangesOf(asked.range, length) : null
  const [first, ...more] = ranges ?? []
  if (ranges === null) {
    const pieces = length === 0 ? [] : [{ start: 0, end: length - 1 }]
    const whole = { ...own, 'content-type': type, 'content-length': String(length) }
    return { status: 200, headers: whole, pieces }
  }
  if (first === undefined) {
    return { status: 416, headers: { 'content-range': `bytes */${length}` }, pieces: [] }
  }
  if (more.length > 0) return several(own, attachment, ranges)
  const part = {
    ...own,
    'content-type': type,
    'content-length': String(first.end - first.start + 1),
    'content-range': rangeText(first, length),
  }
  return { status: 206, headers: part, pieces: [first] }
}

function several(
  headers: Readonly<Record<string, string>>,
  { sha256, length, content_type: type }: Attachment,
  ranges: readonly ByteRange[],
): Answer {
  // No content can hold its own SHA-256, so this ends no part before its end.
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
