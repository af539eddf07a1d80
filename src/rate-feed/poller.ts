import type { Clock, Schedule } from '../base/clock.ts'
import { type HourlyWarning, SourceError, type SourceErrorCode } from './errors.ts'
import type { NamedQuote, Quote } from './rates.ts'
import type { RateSource } from './sources.ts'

/** Delay after the first failure. Each further failure doubles the delay, up to BACK_OFF_MAX_MS. */
const BACK_OFF_MS = 30_000
const BACK_OFF_MAX_MS = 30 * 60_000
/** Delay before a request that failed transiently is repeated. It is repeated once. */
const RETRY_MS = 250
/** Maximum random change of an interval, as a fraction, so that many nodes do not send requests at the same time. */
const JITTER = 0.1
/** Maximum time by which a date may be ahead of this node's clock. */
const CLOCK_SKEW_MS = 3_600_000

export interface PollerContext {
  readonly clock: Clock
  readonly schedule: Schedule
  /** Returns a number in [0, 1). */
  readonly random: () => number
  readonly warning: HourlyWarning
}

/** Requests the quotes of a source at its interval, with a retry and growing delays, and keeps the last good quote. */
export class SourcePoller {
  readonly source: RateSource
  readonly #context: PollerContext
  #request: Promise<Quote | null> | null = null
  /** The last received quote, even if its date is invalid, because a reply `unchanged` refers to this quote. */
  #received: Quote | null = null
  #quote: Quote | null = null
  #dueAt = 0
  #failures = 0
  #lastError: SourceErrorCode | null = null
  #lastSuccessAt: number | null = null
  #lastAttemptAt: number | null = null

  constructor(source: RateSource, context: PollerContext) {
    this.source = source
    this.#context = context
  }

  /** Time of the next request, in milliseconds since the Unix epoch. */
  get dueAt(): number {
    const now = this.#context.clock.now()
    // After the clock was set back, waiting for the planned time could take days.
    return this.#lastAttemptAt !== null && now < this.#lastAttemptAt ? now : this.#dueAt
  }

  /** The last valid quote, however old; null before the first one. */
  get lastGood(): NamedQuote | null {
    return this.#quote === null ? null : { name: this.source.name, quote: this.#quote }
  }

  /**
   * Returns the quote of the source: a new quote if its interval has passed, otherwise the last quote. Returns null if
   * the last request failed. Concurrent callers share a request. Never rejects.
   */
  poll(): Promise<Quote | null> {
    if (this.#request !== null) return this.#request
    if (this.#context.clock.now() < this.dueAt) {
      return Promise.resolve(this.#failures > 0 ? null : this.#quote)
    }
    this.#request = this.#pollNow().finally(() => {
      this.#request = null
    })
    return this.#request
  }

  /**
   * Reports that the last quote is implausible. Does not delay the next request and keeps the quote, because another
   * source may confirm the quote later.
   */
  reportImplausible(error: SourceError): void {
    this.#lastError = error.code
    this.#warn(`implausible ${this.source.name}`, error)
  }

  /** Returns the state for `/healthz`. */
  state() {
    return {
      name: this.source.name,
      lastSuccessAt: instantOf(this.#lastSuccessAt),
      lastAttemptAt: instantOf(this.#lastAttemptAt),
      asOf: this.#quote?.asOf ?? null,
      /** Number of failures since the last success. */
      failures: this.#failures,
      lastError: this.#lastError,
      backOffUntil: instantOf(this.#failures > 0 ? this.#dueAt : null),
    }
  }

  async #pollNow(): Promise<Quote | null> {
    const { clock, warning } = this.#context
    const { name, refreshMs } = this.source
    this.#lastAttemptAt = clock.now()
    try {
      const reply = await this.#readWithRetry()
      const quote = reply === 'unchanged' ? this.#received : reply
      if (quote === null)
        throw new SourceError(
          'MALFORMED',
          'the source replied that the rates are unchanged, but has not sent any rates yet',
        )
      this.#received = quote
      requirePast(quote, clock)
      this.#quote = quote
      this.#failures = 0
      this.#lastError = null
      this.#lastSuccessAt = clock.now()
      this.#dueAt = clock.now() + this.#jittered(refreshMs)
      warning.recovered(`source ${name}`, { source: name }, 'the source works again')
      return quote
    } catch (error) {
      // Catches any error, because a bug in the parser of one source must not stop the other sources.
      const cause = new SourceError('MALFORMED', 'the reply cannot be parsed', { cause: error })
      this.#fail(error instanceof SourceError ? error : cause)
      return null
    }
  }

  async #readWithRetry(): Promise<Quote | 'unchanged'> {
    try {
      return await this.source.read()
    } catch (error) {
      if (!(error instanceof SourceError) || !error.isTransient) throw error
      await new Promise<void>((resolve) => void this.#context.schedule.after(RETRY_MS, resolve))
      return await this.source.read()
    }
  }

  #fail(error: SourceError): void {
    this.#failures += 1
    this.#lastError = error.code
    const backOff = Math.min(BACK_OFF_MS * 2 ** Math.min(this.#failures - 1, 10), BACK_OFF_MAX_MS)
    const delay = Math.max(this.#jittered(backOff), error.retryAfterMs ?? 0)
    this.#dueAt = this.#context.clock.now() + delay
    this.#warn(`source ${this.source.name}`, error)
  }

  #warn(subject: string, { code, message }: SourceError): void {
    const { name } = this.source
    const fields = { source: name, code, failures: this.#failures }
    this.#context.warning.warn(subject, fields, `no rates from ${name}: ${message}`)
  }

  #jittered(ms: number): number {
    return Math.round(ms * (1 + JITTER * (2 * this.#context.random() - 1)))
  }
}

/** Throws SourceError DATE_FUTURE if the date of a quote is in the future. */
export function requirePast({ asOf, asOfMs }: Quote, clock: Clock): void {
  if (asOfMs <= clock.now() + CLOCK_SKEW_MS) return
  throw new SourceError('DATE_FUTURE', `the date ${asOf} is in the future`)
}

/** Formats milliseconds since the Unix epoch as ISO 8601. */
export function instantOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
