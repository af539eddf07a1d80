import { isUtf8 } from 'node:buffer'
import { ConverterError } from '../errors.ts'
import { OPTION_NAMES } from '../options.ts'

// Parses multipart forms without busboy 1.6.0 and @fastify/busboy 3.2.6: both end a file at a line that only starts like
// the boundary, garble Latin-1 names and keep `%22` in names. Here the body is one bounded buffer (`readBody`).

/** Maximum size of a file: 10 MiB. Source: specification, “Limits”. */
export const FILE_BYTES_MAX: number = 10 * 1024 * 1024
/** Maximum size of a form with its fields and headers. */
export const FORM_BYTES_MAX: number = FILE_BYTES_MAX + 64 * 1024
/** Maximum bytes of a field. Every valid value is shorter. */
const FIELD_BYTES_MAX = 64
/** Maximum number of parts, including fields that are ignored. */
const PARTS_MAX = 64
/** Maximum size of the headers of one part. */
const HEADER_BYTES_MAX = 16 * 1024
/** Maximum number of lines that only start like a boundary: few, unless they are meant to keep the process busy. */
const FALSE_BOUNDARIES_MAX = 1_000
/** Maximum length of a boundary. RFC 2046 allows 70, but some clients send longer boundaries. */
const BOUNDARY_LENGTH_MAX = 200

const CRLF = Buffer.from('\r\n')
const HEADERS_END = Buffer.from('\r\n\r\n')

export interface ImageUpload {
  readonly bytes: Uint8Array
  /** The name of the file, as sent. */
  readonly name: string
  /** Fields whose names are in OPTION_NAMES, by name. */
  readonly fields: ReadonlyMap<string, string>
}

/**
 * Parses the upload in a complete `multipart/form-data` body. Fields with other names are ignored. Errors:
 * FORM_MALFORMED, FILE_MISSING, FILE_EMPTY, FILE_TOO_LARGE; FIELD_INVALID for a field that is repeated or too long.
 */
export function readUpload(body: Buffer, contentType: string): ImageUpload {
  const known: ReadonlySet<string> = new Set(OPTION_NAMES)
  const fields = new Map<string, string>()
  let file: Pick<ImageUpload, 'bytes' | 'name'> | null = null
  for (const { name, fileName, bytes } of readForm(body, contentType)) {
    if (name === 'file' && fileName !== null) {
      if (file !== null) throw new ConverterError('FIELD_INVALID', 'the form has two files')
      // If no file is chosen, a browser sends the field with an empty file name and no content, which is ignored.
      if (fileName !== '' || bytes.length > 0) file = { bytes, name: fileName }
    } else if (known.has(name)) {
      const isRepeated = fields.has(name)
      if (isRepeated || bytes.length > FIELD_BYTES_MAX) {
        const problem = isRepeated ? 'is repeated' : 'is too long'
        throw new ConverterError('FIELD_INVALID', `the field ${name} ${problem}`)
      }
      fields.set(name, bytes.toString('utf8'))
    }
  }
  if (file === null)
    throw new ConverterError('FILE_MISSING', 'the form has no file; send it in the field “file”')
  const { length } = file.bytes
  if (length === 0) throw new ConverterError('FILE_EMPTY', 'the file is empty')
  if (length > FILE_BYTES_MAX) {
    const message = `the file is ${length} bytes long; the maximum is 10 MiB (${FILE_BYTES_MAX} bytes)`
    throw new ConverterError('FILE_TOO_LARGE', message)
  }
  return { ...file, fields }
}

interface FormPart {
  readonly name: string
  /** The name of the file as sent, or null for a field without a file. */
  readonly fileName: string | null
  /** The content, as a view into the body of the request. */
  readonly bytes: Buffer
}

/**
 * Parses the parts of a form, in order. Accepts the variants of different clients: quoted and unquoted parameters,
 * `filename*`, and names with `\"`, `%22` or raw UTF-8. Skips parts that are not form data. Errors: FORM_MALFORMED.
 * Source: RFC 7578; RFC 2046 section 5.1; WHATWG HTML 4.10.21.8.
 */
export function readForm(body: Buffer, contentType: string): FormPart[] {
  const boundary = requireBoundary(contentType)
  const parts: FormPart[] = []
  let at = requireDelimiter(body, boundary, 0)
  while (!at.isLast) {
    if (parts.length === PARTS_MAX) throw malformed(`the form has more than ${PARTS_MAX} parts`)
    const next = requireDelimiter(body, boundary, at.end - CRLF.length)
    const part = readPart(body.subarray(at.end, Math.max(at.end, next.start)))
    if (part !== null) parts.push(part)
    at = next
  }
  return parts
}

function malformed(message: string): ConverterError {
  return new ConverterError('FORM_MALFORMED', message)
}

function requireBoundary(contentType: string): Buffer {
  const match = /;\s*boundary=(?:"([^"]+)"|([^\s;"]+))/i.exec(contentType)
  const boundary = match?.[1] ?? match?.[2]
  if (boundary === undefined || boundary.length > BOUNDARY_LENGTH_MAX) {
    throw malformed('the Content-Type has no boundary parameter')
  }
  return Buffer.from(`\r\n--${boundary}`, 'latin1')
}

/** The position of a boundary line, including the preceding CRLF. */
interface Delimiter {
  readonly start: number
  readonly end: number
  readonly isLast: boolean
}

function requireDelimiter(body: Buffer, boundary: Buffer, from: number): Delimiter {
  const first = boundary.subarray(CRLF.length)
  const isFirst = from === 0 && body.subarray(0, first.length).equals(first)
  let start = isFirst ? -CRLF.length : body.indexOf(boundary, from)
  for (let falseBoundaries = 0; start !== -1; falseBoundaries += 1) {
    if (falseBoundaries > FALSE_BOUNDARIES_MAX) throw malformed('the boundary is part of a file')
    const after = start + boundary.length
    const [line, dashes] =
      /^(--)|^[ \t]{0,64}\r\n/.exec(body.toString('latin1', after, after + 66)) ?? []
    if (line !== undefined) {
      return { start: Math.max(0, start), end: after + line.length, isLast: dashes !== undefined }
    }
    start = body.indexOf(boundary, after)
  }
  throw malformed('the form ends before its last boundary')
}

function readPart(bytes: Buffer): FormPart | null {
  const headersEnd = bytes.indexOf(HEADERS_END)
  if (headersEnd === -1 || headersEnd > HEADER_BYTES_MAX) {
    throw malformed('a part of the form has no headers, or too many')
  }
  const head = bytes.subarray(0, headersEnd)
  const headers = head.toString(isUtf8(head) ? 'utf8' : 'latin1')
  const disposition = /^content-disposition:[ \t]*form-data(;.*)$/im.exec(headers)?.[1]
  if (disposition === undefined) return null
  const parameters = parseParameters(disposition)
  const name = parameters.get('name')
  if (name === undefined) throw malformed('a part of the form has no name')
  const fileName = extendedValue(parameters.get('filename*')) ?? parameters.get('filename') ?? null
  return { name, fileName, bytes: bytes.subarray(headersEnd + HEADERS_END.length) }
}

function parseParameters(text: string): Map<string, string> {
  const parameters = new Map<string, string>()
  for (const [, name = '', quoted, bare = ''] of text.matchAll(
    /;[ \t]*([^\s=;"]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^;"]*))/g,
  )) {
    const value = quoted === undefined ? bare.trim() : unquoted(quoted)
    parameters.set(name.toLowerCase(), value)
  }
  return parameters
}

/** Decodes the escapes in a quoted parameter: backslashes of older clients, and `%0D`, `%0A` and `%22` of browsers. */
function unquoted(text: string): string {
  return text
    .replace(/\\(["\\])/g, '$1')
    .replace(/%(22|0A|0D)/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

/** Decodes a UTF-8 parameter value in the format of RFC 8187; returns undefined for any other format. */
function extendedValue(text = ''): string | undefined {
  const encoded = /^utf-8'[^']*'(.*)$/i.exec(text)?.[1]
  if (encoded === undefined) return undefined
  try {
    return decodeURIComponent(encoded)
  } catch {
    return undefined
  }
}
