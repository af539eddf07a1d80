import { CodedError } from '../base/coded-error.ts'

/** Every reason to refuse an image. */
const CODES = [
  'FORM_MALFORMED', // not a complete multipart form
  'FILE_MISSING', // no field `file` with a file
  'FILE_EMPTY',
  'FIELD_INVALID', // `px`, `width` and so on: out of range, not a number, or repeated
  'FILE_TOO_LARGE',
  'IMAGE_TOO_LARGE', // too many pixels, or too much memory or time to decode
  'GRID_TOO_LARGE', // too many cells, columns or rows
  'FORMAT_NOT_ACCEPTED', // not an image of an accepted format
  'IMAGE_UNDECODABLE', // of an accepted format, but damaged
  'GIVEN_UP', // the client has left; neither sent nor logged
  'BUSY', // all workers are in use, and the queue is full
  'WORKER_ENDED', // the worker process was killed
] as const

/** One of `CODES`. */
export type ConverterErrorCode = (typeof CODES)[number]

/** Whether a code from a worker process is one of `CODES`. */
export function isConverterErrorCode(code: string): code is ConverterErrorCode {
  return CODES.some((known) => known === code)
}

/** Thrown by the converter; the message has the values and what is accepted. */
export class ConverterError extends CodedError<ConverterErrorCode> {
  override readonly name = 'ConverterError'
}

/** The error for a damaged image; the decoder's own message means nothing to a user. */
export function undecodable(format: string, cause?: unknown): ConverterError {
  const message = `the ${format.toUpperCase()} image cannot be decoded: it is damaged or cut short`
  return new ConverterError('IMAGE_UNDECODABLE', message, { cause })
}
