import type { Clock, Schedule } from '../base/clock.ts'
import { type HourlyWarning, RateSourceError } from './errors.ts'
import type { Quote, RateVector } from './rates.ts'
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
  readonly random: () => number
  readonly warning: HourlyWarning
}

/** Requests the rates of a source at its interval, with a retry and growing delays, and keeps the last good rates. */
export class SourcePoller {
  readonly source: RateSource
  readonly #context: PollerContext
  #request: Promise<RateVector | null> | null = null
  #vector: RateVector | null = null
  #dueAt = 0
  /** Number of failures since the last success. */
  #failures = 0
  #lastError: RateSourceError | null = null
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

  /**
   * Returns the rates of the source: new rates if its interval has passed, otherwise the last rates. Returns null if
   * the last request failed. Concurrent callers share a request. Never rejects.
   */
  poll(): Promise<RateVector | null> {
    if (this.#request !== null) return this.#request
    if (this.#context.clock.now() < this.dueAt) {
      return Promise.resolve(this.#failures > 0 ? null : this.#vector)
    }
    this.#request = this.#pollNow().finally(() => {
      this.#request = null
    })
    return this.#request
  }

  /** Reports that the last rates are older than the built-in ones. Does not delay the next request. */
  reportOld(error: RateSourceError): void {
    this.#lastError = error
    this.#warn(`old ${this.source.name}`, error)
  }

  /** Returns the state for `/healthz`. */
  state() {
    return {
      name: this.source.name,
      lastSuccessAt: formatInstant(this.#lastSuccessAt),
      lastAttemptAt: formatInstant(this.#lastAttemptAt),
      asOf: this.#vector?.asOf ?? null,
      failures: this.#failures,
      lastError: this.#lastError?.code ?? null,
      backOffUntil: formatInstant(this.#failures > 0 ? this.#dueAt : null),
    }
  }

  async #pollNow(): Promise<RateVector | null> {
    const { clock, warning } = this.#context
    const { name, refreshMs } = this.source
    this.#lastAttemptAt = clock.now()
    try {
      const quote = await this.#readWithRetry()
      requirePast(quote, clock)
      this.#vector = { source: name, ...quote }
      this.#failures = 0
      this.#lastError = null
      this.#lastSuccessAt = clock.now()
      this.#dueAt = clock.now() + this.#withJitter(refreshMs)
      warning.recovered(`source ${name}`, { source: name }, 'the source works again')
      return this.#vector
    } catch (error) {
      // Catches any error, because a bug in the parser of one source must not stop the other sources.
      const cause = new RateSourceError('MALFORMED', 'the reply cannot be parsed', { cause: error })
      this.#fail(error instanceof RateSourceError ? error : cause)
      return null
    }
  }

  async #readWithRetry(): Promise<Quote> {
    try {
      return await this.source.read()
    } catch (error) {
      if (!(error instanceof RateSourceError) || !error.isTransient) throw error
      await new Promise<void>((resolve) => void this.#context.schedule.after(RETRY_MS, resolve))
      return await this.source.read()
    }
  }

  #fail(error: RateSourceError): void {
    this.#failures += 1
    this.#lastError = error
    const backOff = Math.min(BACK_OFF_MS * 2 ** Math.min(this.#failures - 1, 10), BACK_OFF_MAX_MS)
    const delay = Math.max(this.#withJitter(backOff), error.retryAfterMs ?? 0)
    this.#dueAt = this.#context.clock.now() + delay
    this.#warn(`source ${this.source.name}`, error)
  }

  #warn(subject: string, { code, message }: RateSourceError): void {
    const { name } = this.source
    const fields = { source: name, code, failures: this.#failures }
    this.#context.warning.warn(subject, fields, `no rates from ${name}: ${message}`)
  }

  #withJitter(ms: number): number {
    return Math.round(ms * (1 + JITTER * (2 * this.#context.random() - 1)))
  }
}

/** Throws RateSourceError DATE_FUTURE if the date of a quote is in the future. */
export function requirePast({ asOf, asOfMs }: Quote, clock: Clock): void {
  if (asOfMs <= clock.now() + CLOCK_SKEW_MS) return
  throw new RateSourceError('DATE_FUTURE', `the date ${asOf} is in the future`)
}

/** Formats milliseconds since the Unix epoch as ISO 8601. */
export function formatInstant(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
