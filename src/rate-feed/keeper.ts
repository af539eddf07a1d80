import type { Clock, Schedule } from '../base/clock.ts'
import type { HourlyWarning } from './log.ts'
import { SourceError, type SourceErrorCode } from './source-error.ts'
import type { RateSource } from './sources/source.ts'
import type { Quote } from './vector.ts'

/** The first wait after a failure; it doubles with each further one. */
const BACK_OFF_MS = 30_000
const BACK_OFF_MAX_MS = 30 * 60_000
/** Between a failure that may pass by itself and the one more try. */
const RETRY_MS = 250
/** Refreshes are spread by this fraction either way, so that many nodes do not ask at once. */
const JITTER = 0.1
/** How far another's clock may be ahead of ours. */
const CLOCK_SKEW_MS = 3_600_000

/** What one source's record is, for `/healthz`. */
export interface SourceRecord {
  readonly name: string
  /** Milliseconds since the Unix epoch; null when it never answered well. */
  readonly lastSuccessAt: number | null
  readonly lastAttemptAt: number | null
  readonly asOf: string | null
  /** Failures since the last success. */
  readonly failures: number
  readonly lastError: SourceErrorCode | null
  /** It is not asked before this moment; null when it is not backed off. */
  readonly backOffUntil: number | null
}

/** What a keeper needs of the world. */
export interface KeeperTools {
  readonly clock: Clock
  readonly schedule: Schedule
  /** A number in [0, 1). */
  readonly random: () => number
  readonly warning: HourlyWarning
}

/**
 * Looks after one source: asks it when it is due, once at a time, tries again once, backs off, and
 * keeps what it last said well.
 */
export class SourceKeeper {
  readonly source: RateSource
  readonly #tools: KeeperTools
  #asking: Promise<Quote | null> | null = null
  /** What it said last, whether believed or not: what `unchanged` refers to. */
  #said: Quote | null = null
  #quote: Quote | null = null
  #dueAt = 0
  #failures = 0
  #lastError: SourceErrorCode | null = null
  #lastSuccessAt: number | null = null
  #lastAttemptAt: number | null = null

  constructor(source: RateSource, tools: KeeperTools) {
    this.source = source
    this.#tools = tools
  }

  /** When it is worth asking again, milliseconds since the Unix epoch. */
  get dueAt(): number {
    return this.#dueAt
  }

  /** What it last said well, however long ago; null when never. */
  get quote(): Quote | null {
    return this.#quote
  }

  /**
   * What the source says: freshly asked when it is due, else as last said. Null while it fails.
   * Callers at the same time share one request. Never rejects.
   */
  ask(): Promise<Quote | null> {
    if (this.#asking !== null) return this.#asking
    if (this.#tools.clock.now() < this.#dueAt) {
      return Promise.resolve(this.#failures > 0 ? null : this.#quote)
    }
    this.#asking = this.#askNow().finally(() => {
      this.#asking = null
    })
    return this.#asking
  }

  /**
   * Notes that what it said is not believed. It is asked again at its usual pace, and what it said
   * stays at hand: another witness may yet confirm it.
   */
  doubt(error: SourceError): void {
    this.#lastError = error.code
    this.#warn(`doubts about ${this.source.name}`, error)
  }

  /** The record for `/healthz`. */
  record(): SourceRecord {
    return {
      name: this.source.name,
      lastSuccessAt: this.#lastSuccessAt,
      lastAttemptAt: this.#lastAttemptAt,
      asOf: this.#quote?.asOf ?? null,
      failures: this.#failures,
      lastError: this.#lastError,
      backOffUntil: this.#failures > 0 ? this.#dueAt : null,
    }
  }

  async #askNow(): Promise<Quote | null> {
    const { clock, warning } = this.#tools
    this.#lastAttemptAt = clock.now()
    try {
      const said = await this.#readWithOneRetry()
      const quote = said === 'unchanged' ? this.#said : said
      if (quote === null) throw new SourceError('MALFORMED', 'unchanged, but nothing is kept')
      this.#said = quote
      this.#refuseFuture(quote)
      this.#quote = quote
      this.#failures = 0
      this.#lastError = null
      this.#lastSuccessAt = clock.now()
      this.#dueAt = clock.now() + this.#jittered(this.source.refreshMs)
      warning.recovered(
        `source ${this.source.name}`,
        { source: this.source.name },
        'the source answers again',
      )
      return quote
    } catch (error) {
      // A defect of ours in reading one source must not stop the others.
      this.#fail(
        error instanceof SourceError
          ? error
          : new SourceError('MALFORMED', 'the source cannot be read', { cause: error }),
      )
      return null
    }
  }

  async #readWithOneRetry(): Promise<Quote | 'unchanged'> {
    try {
      return await this.source.read()
    } catch (error) {
      if (!(error instanceof SourceError) || !error.passing) throw error
      await new Promise<void>((resolve) => {
        this.#tools.schedule.after(RETRY_MS, resolve)
      })
      return await this.source.read()
    }
  }

  #refuseFuture(quote: Quote): void {
    if (quote.asOfMs > this.#tools.clock.now() + CLOCK_SKEW_MS) {
      throw new SourceError('DATE_FUTURE', `it is dated ${quote.asOf}, which is to come`)
    }
  }

  #fail(error: SourceError): void {
    const { clock } = this.#tools
    this.#failures += 1
    this.#lastError = error.code
    const backOff = Math.min(BACK_OFF_MS * 2 ** Math.min(this.#failures - 1, 10), BACK_OFF_MAX_MS)
    this.#dueAt = clock.now() + Math.max(this.#jittered(backOff), error.retryAfterMs ?? 0)
    this.#warn(`source ${this.source.name}`, error)
  }

  #warn(subject: string, { code, message }: SourceError): void {
    this.#tools.warning.warn(
      subject,
      { source: this.source.name, code, failures: this.#failures },
      `no rates from ${this.source.name}: ${message}`,
    )
  }

  #jittered(ms: number): number {
    return Math.round(ms * (1 + JITTER * (2 * this.#tools.random() - 1)))
  }
}
