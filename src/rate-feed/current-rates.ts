import { isDeepStrictEqual } from 'node:util'
import { RateSourceError } from './errors.ts'
import type { PollerContext, SourcePoller } from './poller.ts'
import { completeUnits, computeRates, type PerEur, type Rates, type RateVector } from './rates.ts'

/** Minimum time for which a confirmation is valid. */
const CONFIRMED_MIN_MS = 2 * 3_600_000
/** Minimum number of refresh intervals of its source for which a confirmation is valid. */
const CONFIRMED_REFRESHES = 3
/** Maximum age difference at which rates of an earlier date than the served rates still confirm the served rates. */
const OLDER_CONFIRMS_MAX_MS = 4 * 86_400_000
/** Minimum and maximum delay between two refreshes. */
const PAUSE_MIN_MS = 1_000
const PAUSE_MAX_MS = 6 * 3_600_000

export interface ServedRates {
  readonly vector: RateVector
  /** Index of the source in the operator's list, where lower is better. Infinite for stored rates. */
  readonly rank: number
  readonly perEur: PerEur
  readonly rates: Rates
  /** The last live source that confirmed the rates, and the time. Null if no live source has confirmed the rates. */
  readonly confirmed: { readonly by: string; readonly at: number } | null
  /** Time from which the rates are stale, in milliseconds since the Unix epoch. */
  readonly staleFrom: number
}

export interface CurrentRatesContext extends Pick<PollerContext, 'clock' | 'schedule'> {
  /** Age of the date at which rates are stale, even if they are confirmed, in milliseconds. */
  readonly staleAfterMs: number
  /** Called with each vector of a live source that is served from now on. */
  readonly onAccepted: (vector: RateVector) => void
}

/**
 * Selects the rates to serve. A refresh requests the sources in the operator's order until a source provides new
 * rates or confirms the served rates, then schedules the next refresh. Source: decision 0012.
 */
export class CurrentRates {
  readonly #pollers: readonly SourcePoller[]
  readonly #context: CurrentRatesContext
  #served: ServedRates | null = null
  #refreshing: Promise<void> | null = null
  #cancelTimer = () => {}
  #nextAt = 0
  #isStopped = false

  constructor(pollers: readonly SourcePoller[], context: CurrentRatesContext) {
    this.#pollers = pollers
    this.#context = context
  }

  /** The rates to serve, or null until a source has provided rates. */
  get served(): ServedRates | null {
    return this.#served
  }

  /** Time of the next refresh, in milliseconds since the Unix epoch, or 0 if no refresh is planned. */
  get nextAt(): number {
    return this.#nextAt
  }

  /** Serves stored rates. They count as stale until a live source confirms them. */
  serveStored(vector: RateVector): void {
    this.#replace(vector, Number.POSITIVE_INFINITY)
  }

  /** Starts a refresh, or joins the current refresh. Never rejects. */
  refresh(): Promise<void> {
    if (this.#isStopped) return Promise.resolve()
    this.#refreshing ??= this.#refreshNow().finally(() => {
      this.#refreshing = null
    })
    return this.#refreshing
  }

  /** Prevents further refreshes. A refresh in progress ends within the time limits of its requests. */
  stop(): void {
    this.#isStopped = true
    this.#cancelTimer()
  }

  async #refreshNow(): Promise<void> {
    const { clock, schedule } = this.#context
    const polled: SourcePoller[] = []
    let older: SourcePoller | null = null
    for (const [rank, poller] of this.#pollers.entries()) {
      polled.push(poller)
      const vector = await poller.poll()
      if (vector === null) continue
      const outcome = this.#offer(vector, rank, poller)
      if (outcome === 'older') older ??= poller
      if (outcome !== 'settled') continue
      older = null
      break
    }
    if (older !== null) this.#confirm(older)
    if (this.#isStopped || polled.length === 0) return
    const now = clock.now()
    const dueAt = Math.min(now + PAUSE_MAX_MS, ...polled.map((poller) => poller.dueAt))
    const pauseMs = Math.max(PAUSE_MIN_MS, dueAt - now)
    this.#cancelTimer()
    this.#nextAt = now + pauseMs
    this.#cancelTimer = schedule.after(pauseMs, () => void this.refresh())
  }

  /**
   * Serves or rejects the rates of a source. Returns `settled` if no further source is needed; `older` if the rates are
   * older than the served rates and can only confirm them; `ignored` if they are too old.
   */
  #offer(vector: RateVector, rank: number, poller: SourcePoller): 'settled' | 'older' | 'ignored' {
    const served = this.#served
    const newerMs = vector.asOfMs - (served?.vector.asOfMs ?? 0)
    if (served !== null && newerMs < 0) {
      if (served.vector.source !== 'snapshot') {
        return -newerMs <= OLDER_CONFIRMS_MAX_MS ? 'older' : 'ignored'
      }
      const message = `the rates of ${vector.asOf} are older than the built-in rates of ${served.vector.asOf}`
      poller.reportOld(new RateSourceError('DATE_OLD', message))
      return 'ignored'
    }
    const isNew = !isDeepStrictEqual(vector, served?.vector)
    if (served === null || newerMs > 0 || (rank <= served.rank && isNew)) {
      this.#replace(vector, rank)
      this.#context.onAccepted(vector)
    }
    this.#confirm(poller)
    return 'settled'
  }

  #replace(vector: RateVector, rank: number): void {
    const perEur = completeUnits(vector)
    const unconfirmed = { confirmed: null, staleFrom: Number.NEGATIVE_INFINITY }
    this.#served = { vector, rank, perEur, rates: computeRates(perEur), ...unconfirmed }
  }

  #confirm({ source }: SourcePoller): void {
    if (this.#served === null) return
    const at = this.#context.clock.now()
    const until = at + Math.max(CONFIRMED_MIN_MS, CONFIRMED_REFRESHES * source.refreshMs)
    const staleFrom = Math.min(until, this.#served.vector.asOfMs + this.#context.staleAfterMs)
    this.#served = { ...this.#served, confirmed: { by: source.name, at }, staleFrom }
  }
}
