import { CodedError } from '../base/coded-error.ts'

/** Every way the feed refuses a request. */
export type RateFeedErrorCode =
  | 'RATES_NONE_YET' // no source has answered since the start, and none is kept
  | 'RATES_STALE' // the operator forbids rates this old or unconfirmed
  | 'HISTORY_OFF' // vectors are not recorded here
  | 'HISTORY_RANGE_INVALID' // a date that is none, or `from` after `to`

/** Thrown by `RateFeedService`. */
export class RateFeedError extends CodedError<RateFeedErrorCode> {
  override readonly name = 'RateFeedError'
}

/** The HTTP status of each refusal. */
export const statusOf: Record<RateFeedErrorCode, number> = {
  RATES_NONE_YET: 503,
  RATES_STALE: 503,
  HISTORY_OFF: 404,
  HISTORY_RANGE_INVALID: 400,
}

/** Why `RATES_SOURCES` is not taken: the message names the entry that is wrong. */
export class SourceListError extends CodedError<'SOURCES_INVALID'> {
  override readonly name = 'SourceListError'

  constructor(message: string) {
    super('SOURCES_INVALID', `RATES_SOURCES: ${message}`)
  }
}
