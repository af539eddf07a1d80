import { CodedError } from '../base/coded-error.ts'

/** Every way the converter refuses. A new code does not compile until `statusOf` answers for it. */
export type ConverterErrorCode =
  | 'FORM_MALFORMED' // the body is not a multipart form that can be read to its end
  | 'FILE_MISSING' // no field `file` with a file in it
  | 'FILE_EMPTY'
  | 'FIELD_INVALID' // `px`, `width` and so on, out of range or not a number
  | 'FILE_TOO_LARGE' // more bytes than are taken
  | 'IMAGE_TOO_LARGE' // more pixels, decoder memory or decoding time than are spent
  | 'GRID_TOO_LARGE' // more cells, columns or rows than a sheet or we bear
  | 'FORMAT_NOT_ACCEPTED' // not an image, or one of a kind that is not decoded here
  | 'IMAGE_UNDECODABLE' // of an accepted kind, but damaged or cut short
  | 'GIVEN_UP' // whoever asked for it has left: nobody is told, and it is nothing to log
  | 'BUSY' // every seat and every place in the queue is taken
  | 'WORKER_ENDED' // the process that converts it was ended by something else

/** Thrown by the converter; the message names the values and what would be accepted. */
export class ConverterError extends CodedError<ConverterErrorCode> {
  override readonly name = 'ConverterError'
}

/** The HTTP status of each refusal. */
export const statusOf: Record<ConverterErrorCode, number> = {
  FORM_MALFORMED: 400,
  FILE_MISSING: 400,
  FILE_EMPTY: 400,
  FIELD_INVALID: 400,
  FILE_TOO_LARGE: 413,
  IMAGE_TOO_LARGE: 413,
  GRID_TOO_LARGE: 413,
  FORMAT_NOT_ACCEPTED: 415,
  IMAGE_UNDECODABLE: 422,
  GIVEN_UP: 408,
  BUSY: 503,
  WORKER_ENDED: 503,
}

/** Whether `code` (from another process) is one of ours. */
export function isConverterErrorCode(code: string): code is ConverterErrorCode {
  return Object.hasOwn(statusOf, code)
}
