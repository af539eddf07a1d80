import { CodedError } from '../base/coded-error.ts'

/** Every way the pairs are refused; a request is only ever told 401. */
export type PairsErrorCode =
  | 'HELLO_FILE_UNUSABLE' // the operator's file is missing or is not a table of pairs
  | 'HELLO_NOT_CONFIGURED' // no pair, and the preset one must not be reachable from elsewhere

/** Thrown where the pairs are read; messages never hold a password. */
export class PairsError extends CodedError<PairsErrorCode> {
  override readonly name = 'PairsError'
}
