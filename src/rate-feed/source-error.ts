import { CodedError } from '../base/coded-error.ts'
import type { OutboundErrorCode } from '../http/outbound.ts'

/** Why a source gave no vector. The first group is what its reply was, the second what was in it. */
export type SourceErrorCode =
  | OutboundErrorCode
  | 'FILE_UNREADABLE'
  | 'HTTP_STATUS'
  | 'MALFORMED' // not the documented body: HTML, a DTD, broken JSON
  | 'REFUSED' // a success status around a failure, e.g. `success: false`
  | 'DATE_INVALID'
  | 'DATE_FUTURE'
  | 'DATE_OLD' // before the built-in snapshot
  | 'VALUE_INVALID' // zero, negative, not a number, absurd
  | 'INCOMPLETE' // a currency is missing
  | 'MARKET_CLOSED'
  | 'CHECKSUM_WRONG'
  | 'OUT_OF_BAND' // further from the last good vector than markets move

/** Thrown by sources. The message is for the log: it holds values, never an address with a key. */
export class SourceError extends CodedError<SourceErrorCode> {
  override readonly name = 'SourceError'
  /** How long the source asks to be left alone, milliseconds; null when it does not say. */
  readonly retryAfterMs: number | null
  /** Whether asking again at once may help: the network or the server stumbled. */
  readonly passing: boolean

  constructor(
    code: SourceErrorCode,
    message: string,
    options: ErrorOptions & { retryAfterMs?: number | null; passing?: boolean } = {},
  ) {
    super(code, message, options)
    this.retryAfterMs = options.retryAfterMs ?? null
    this.passing = options.passing ?? false
  }
}
