import { isUtf8 } from 'node:buffer'
import { ConverterError } from './errors.ts'

/** One part of a form. */
export interface FormPart {
  readonly name: string
  /** The name of the file, as sent; null for a plain field. */
  readonly fileName: string | null
  /** A view into the body. */
  readonly bytes: Buffer
}

/** Parts of a form at most: many times what the form has. */
const PARTS_MAX = 64
/** Headers of one part at most. */
const HEADER_BYTES_MAX = 16 * 1024
/** RFC 2046 says 70; some clients are generous. */
const BOUNDARY_LENGTH_MAX = 200

const CRLF = Buffer.from('\r\n')
const HEADERS_END = Buffer.from('\r\n\r\n')

/**
 * The parts of a `multipart/form-data` body that is here as a whole, in order.
 *
 * Quoted and bare parameters, `filename*`, and names with `\"`, `%22` or raw UTF-8 in them are all
 * understood, because clients differ; a part that is not form data is skipped.
 * Errors: FORM_MALFORMED. Source: RFC 7578; RFC 2046 section 5.1; WHATWG HTML 4.10.21.8.
 */
export function readForm(body: Buffer, contentType: string): FormPart[] {
  const boundary = boundaryOf(contentType)
  const parts: FormPart[] = []
  let at = nextDelimiter(body, boundary, 0)
  for (;;) {
    if (at === null) throw malformed('the form ends before its last boundary')
    if (at.last) return parts
    if (parts.length === PARTS_MAX) throw malformed(`the form has more than ${PARTS_MAX} parts`)
    const start = at.end
    const next: Delimiter | null = nextDelimiter(body, boundary, start - CRLF.length)
    if (next === null) throw malformed('the form ends before its last boundary')
    const part = readPart(body.subarray(start, Math.max(start, next.start)))
    if (part !== null) parts.push(part)
    at = next
  }
}

function malformed(message: string): ConverterError {
  return new ConverterError('FORM_MALFORMED', message)
}

function boundaryOf(contentType: string): Buffer {
  const match = /;\s*boundary=(?:"([^"]+)"|([^\s;"]+))/i.exec(contentType)
  const boundary = match?.[1] ?? match?.[2]
  if (boundary === undefined || boundary.length > BOUNDARY_LENGTH_MAX) {
    throw malformed('the Content-Type names no boundary')
  }
  return Buffer.from(`--${boundary}`, 'latin1')
}

/** A line that parts the body: from the CRLF before it to the end of its own. */
interface Delimiter {
  readonly start: number
  readonly end: number
  readonly last: boolean
}

function nextDelimiter(body: Buffer, boundary: Buffer, from: number): Delimiter | null {
  let at = body.indexOf(boundary, Math.max(0, from))
  for (; at !== -1; at = body.indexOf(boundary, at + 1)) {
    const opensLine = at === 0 || body.subarray(at - 2, at).equals(CRLF)
    if (!opensLine) continue
    const after = at + boundary.length
    const start = Math.max(0, at - 2)
    if (body.toString('latin1', after, after + 2) === '--') {
      return { start, end: after + 2, last: true }
    }
    const line = /^[ \t]{0,64}\r\n/.exec(body.toString('latin1', after, after + 66))
    if (line !== null) return { start, end: after + line[0].length, last: false }
  }
  return null
}

function readPart(bytes: Buffer): FormPart | null {
  const headersEnd = bytes.indexOf(HEADERS_END)
  if (headersEnd === -1 || headersEnd > HEADER_BYTES_MAX) {
    throw malformed('a part of the form has no headers, or too many')
  }
  const headers = textOf(bytes.subarray(0, headersEnd))
  const disposition = /^content-disposition:[ \t]*form-data(;.*)$/im.exec(headers)?.[1]
  if (disposition === undefined) return null
  const parameters = parametersOf(disposition)
  const name = parameters.get('name')
  if (name === undefined) throw malformed('a part of the form has no name')
  const fileName = extendedValue(parameters.get('filename*')) ?? parameters.get('filename') ?? null
  return { name, fileName, bytes: bytes.subarray(headersEnd + HEADERS_END.length) }
}

function parametersOf(text: string): Map<string, string> {
  const parameters = new Map<string, string>()
  for (const [, name = '', quoted, bare = ''] of text.matchAll(
    /;[ \t]*([^\s=;"]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^;"]*))/g,
  )) {
    const value = quoted === undefined ? bare.trim() : unquoted(quoted)
    parameters.set(name.toLowerCase(), value)
  }
  return parameters
}

/** Older clients escape with a backslash, browsers with three percent codes and no other. */
function unquoted(text: string): string {
  return text
    .replace(/\\(["\\])/g, '$1')
    .replace(/%(22|0A|0D)/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

/** RFC 8187, UTF-8 only; undefined when it is not that. */
function extendedValue(text: string | undefined): string | undefined {
  const match = /^utf-8'[^']*'(.*)$/i.exec(text ?? '')
  if (match?.[1] === undefined) return undefined
  try {
    return decodeURIComponent(match[1])
  } catch {
    return undefined
  }
}

/** UTF-8, else Latin-1. */
function textOf(bytes: Buffer): string {
  return bytes.toString(isUtf8(bytes) ? 'utf8' : 'latin1')
}
