import { CodedError } from '../base/coded-error.ts'

const CODES = [
  'FORM_MALFORMED', // the body is not a complete multipart form
  'FILE_MISSING', // the form has no file in the field `file`
  'FILE_EMPTY',
  'FIELD_INVALID', // `px`, `width` and so on: out of range, not a number, or repeated
  'FILE_TOO_LARGE',
  'IMAGE_TOO_LARGE', // too many pixels, or too much memory or time to decode
  'GRID_TOO_LARGE', // too many cells, columns or rows
  'FORMAT_NOT_ACCEPTED', // the file is not an image in an accepted format
  'IMAGE_UNDECODABLE', // the image is in an accepted format, but damaged
  'GIVEN_UP', // the client has disconnected, so this error is neither sent nor logged
  'BUSY', // all workers are in use, and the queue is full
  'WORKER_ENDED', // the worker process was killed
] as const

export type ConverterErrorCode = (typeof CODES)[number]

/** Whether a code from a worker process is one of `CODES`. */
export function isConverterErrorCode(code: string): code is ConverterErrorCode {
  return CODES.some((known) => known === code)
}

/** A coded error of the converter. Its message contains the invalid value and the accepted values. */
export class ConverterError extends CodedError<ConverterErrorCode> {
  override readonly name = 'ConverterError'
}

/** Returns the error for a damaged image. The decoder's error is only the cause, because it would not help a user. */
export function undecodable(format: string, cause?: unknown): ConverterError {
  const message = `the ${format.toUpperCase()} image cannot be decoded: it is damaged or incomplete`
  return new ConverterError('IMAGE_UNDECODABLE', message, { cause })
}
