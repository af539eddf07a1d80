import type { Clock } from '../base/clock.ts'
import { CodedError } from '../base/coded-error.ts'
import type { OutboundErrorCode } from '../http/outbound.ts'

/** HTTP status of each error code. */
export const rateFeedStatuses = {
  RATES_NONE_YET: 503, // no source has provided rates since the start, and no rates were stored
  RATES_STALE: 503, // RATES_STRICT forbids stale rates
  HISTORY_OFF: 404, // rates are not recorded
  HISTORY_RANGE_INVALID: 400, // `from` or `to` is not a date, or `from` is after `to`
} as const

/** Error of this module. `rateFeedStatuses` maps `code` to an HTTP status. */
export class RateFeedError extends CodedError<keyof typeof rateFeedStatuses> {
  override readonly name = 'RateFeedError'
}

/** RATES_SOURCES is invalid. The message contains the invalid entry. */
export class SourceListError extends CodedError<'SOURCES_INVALID'> {
  override readonly name = 'SourceListError'

  constructor(message: string) {
    super('SOURCES_INVALID', `RATES_SOURCES: ${message}`)
  }
}

/** Reasons why a source provides no rates. */
type RateSourceErrorCode =
  | OutboundErrorCode
  | 'FILE_UNREADABLE'
  | 'HTTP_STATUS'
  | 'MALFORMED' // not the documented format: HTML, a DTD, broken JSON
  | 'REFUSED' // status 200 with an error in the body, e.g. `success: false`
  | 'DATE_INVALID'
  | 'DATE_FUTURE'
  | 'DATE_OLD' // before the built-in rates
  | 'VALUE_INVALID' // zero, negative, not a number, or out of range
  | 'INCOMPLETE' // a currency is missing
  | 'CHECKSUM_WRONG'

/** A source provides no rates. */
export class RateSourceError extends CodedError<RateSourceErrorCode> {
  override readonly name = 'RateSourceError'
  /** Delay that the source asks for before the next request, in milliseconds; null if it asks for none. */
  readonly retryAfterMs: number | null
  /** Whether an immediate retry may help. */
  readonly isTransient: boolean

  constructor(
    code: RateSourceErrorCode,
    message: string,
    options: ErrorOptions & { retryAfterMs?: number | null; isTransient?: boolean } = {},
  ) {
    super(code, message, options)
    this.retryAfterMs = options.retryAfterMs ?? null
    this.isTransient = options.isTransient ?? false
  }
}

/** The log of the feed, for example a pino logger. */
export interface FeedLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

const HOUR_MS = 3_600_000

/** Logs a warning about each subject at most once an hour, so that a persistent failure does not fill the log. */
export class HourlyWarning {
  readonly #log: FeedLog
  readonly #clock: Clock
  /** Time of the last warning, by subject. Subjects are names of sources and a few constants. */
  readonly #loggedAt = new Map<string, number>()

  constructor(log: FeedLog, clock: Clock) {
    this.#log = log
    this.#clock = clock
  }

  /** Logs a warning about `subject`, unless a warning about it was logged within the last hour. */
  warn(subject: string, fields: object, message: string): void {
    const now = this.#clock.now()
    const loggedAt = this.#loggedAt.get(subject)
    if (loggedAt !== undefined && now - loggedAt < HOUR_MS && now >= loggedAt) return
    this.#loggedAt.set(subject, now)
    this.#log.warn(fields, message)
  }

  /** Logs `message` if there was a warning about `subject` since the last recovery. */
  recovered(subject: string, fields: object, message: string): void {
    if (this.#loggedAt.delete(subject)) this.#log.info(fields, message)
  }
}
