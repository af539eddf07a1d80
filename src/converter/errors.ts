import { CodedError } from '../base/coded-error.ts'

/** HTTP status of each error code. */
export const converterStatuses = {
  FORM_MALFORMED: 400, // the body is not a complete multipart form
  FILE_MISSING: 400, // the form has no file in the field `file`
  FILE_EMPTY: 400,
  FIELD_INVALID: 400, // `px`, `width` and so on: out of range, not a number, or repeated
  FILE_TOO_LARGE: 413,
  IMAGE_TOO_LARGE: 413, // too many pixels, or too much memory or time to decode
  GRID_TOO_LARGE: 413, // too many cells, columns or rows
  FORMAT_NOT_ACCEPTED: 415, // the file is not an image in an accepted format
  IMAGE_UNDECODABLE: 422, // the image is in an accepted format, but damaged
  GIVEN_UP: 408, // the client has disconnected, so this error is neither sent nor logged
  BUSY: 503, // all workers are in use, and the queue is full
  WORKER_ENDED: 503, // the worker process was killed
} as const

type ConverterErrorCode = keyof typeof converterStatuses

/** Whether a code from a worker process is one of the converter's. */
export function isConverterErrorCode(code: string): code is ConverterErrorCode {
  return Object.hasOwn(converterStatuses, code)
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
