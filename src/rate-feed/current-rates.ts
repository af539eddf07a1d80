import type { Clock, Schedule } from '../base/clock.ts'
import { SourceError } from './errors.ts'
import type { SourcePoller } from './poller.ts'
import {
  agree,
  outOfBand,
  type Quote,
  type Rates,
  type RateVector,
  ratesOf,
  SNAPSHOT,
  vectorOf,
} from './rates.ts'

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
  readonly rates: Rates
  /** The last live source that confirmed the rates, and the time. Null if no live source has confirmed the rates. */
  readonly confirmed: { readonly by: string; readonly at: number } | null
  /** Time from which the rates are stale, in milliseconds since the Unix epoch. */
  readonly staleFrom: number
}

export interface CurrentRatesContext {
  readonly clock: Clock
  readonly schedule: Schedule
  /** Age of the date at which rates are stale, even if they are confirmed, in milliseconds. */
  readonly staleAfterMs: number
  /** Whether to reject rates that have changed implausibly. */
  readonly banded: boolean
  /** Source of the ratio of CNH to CNY; null if no such source is configured. */
  readonly overlay: SourcePoller | null
  /** Source of the currencies that partial sources do not quote; null if there is no partial source. */
  readonly bridge: SourcePoller | null
  /** Called with each vector of a live source that is served from now on. */
  readonly onAccepted: (vector: RateVector) => void
}

/** A vector that a source provides during a refresh. */
interface Candidate {
  readonly poller: SourcePoller
  readonly rank: number
  readonly vector: RateVector
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

  /** Serves a stored quote. It counts as stale until a live source confirms it. Errors: SourceError INCOMPLETE. */
  serveStored(name: string, quote: Quote): void {
    this.#replace(vectorOf(name, quote), Number.POSITIVE_INFINITY)
  }

  /** Starts a refresh, or joins the current refresh. Never rejects. */
  refresh(): Promise<void> {
    if (this.#isStopped) return Promise.resolve()
    this.#refreshing ??= this.#refreshNow().finally(() => {
      this.#refreshing = null
    })
    return this.#refreshing
  }

  /** Like `refresh`, but also waits for the overlay, and uses its ratio of CNH to CNY. */
  async refreshWithOverlay(): Promise<void> {
    await this.refresh()
    const { overlay } = this.#context
    if (overlay === null) return
    await overlay.poll()
    await this.refresh()
  }

  /** Prevents further refreshes. A refresh in progress ends within the time limits of its requests. */
  stop(): void {
    this.#isStopped = true
    this.#cancelTimer()
  }

  async #refreshNow(): Promise<void> {
    const polled: SourcePoller[] = []
    let older: SourcePoller | null = null
    const implausible: Candidate[] = []
    for (const [rank, poller] of this.#pollers.entries()) {
      polled.push(poller)
      const vector = await this.#vectorOf(poller)
      if (vector === null) continue
      const outcome = this.#evaluate({ poller, rank, vector }, implausible)
      if (outcome === 'older') older ??= poller
      if (outcome !== 'settled') continue
      older = null
      break
    }
    if (older !== null) this.#confirm(older)
    const now = this.#context.clock.now()
    const dueAt = Math.min(now + PAUSE_MAX_MS, ...polled.map((poller) => poller.dueAt))
    this.#refreshAfter(Math.max(PAUSE_MIN_MS, dueAt - now))
  }

  async #vectorOf(poller: SourcePoller): Promise<RateVector | null> {
    const { overlay, bridge } = this.#context
    const { name, isPartial } = poller.source
    const quote = await poller.poll()
    if (quote === null) return null
    if (isPartial) await bridge?.poll()
    if (overlay !== null && poller !== overlay) this.#refreshOverlay(overlay)
    try {
      const overlaid = poller === overlay ? null : (overlay?.lastGood ?? null)
      return vectorOf(name, quote, overlaid, isPartial ? (bridge?.lastGood ?? null) : null)
    } catch (error) {
      if (!(error instanceof SourceError)) throw error
      poller.reportImplausible(error)
      return null
    }
  }

  /** Requests the overlay in the background, because only CNH depends on it. A new quote starts another refresh. */
  #refreshOverlay(overlay: SourcePoller): void {
    if (this.#context.clock.now() < overlay.dueAt) return
    const before = overlay.lastGood?.quote
    void overlay.poll().then(async (quote) => {
      if (quote === null || quote === before) return
      await this.#refreshing
      this.#refreshAfter(0)
    })
  }

  /**
   * Serves or rejects the rates of a source. Returns `settled` if no further source is needed; `older` if the rates are
   * older than the served rates and can only confirm them; `ignored` if they are rejected or too old.
   */
  #evaluate(candidate: Candidate, implausible: Candidate[]): 'settled' | 'older' | 'ignored' {
    const { vector, rank, poller } = candidate
    const served = this.#served
    // If no rates are served yet, compares with the built-in rates.
    const change = outOfBand(vector, served?.vector ?? vectorOf('snapshot', SNAPSHOT))
    if (change !== null && this.#context.banded) {
      const confirmed = implausible.find((earlier) => confirm(earlier, candidate))
      if (confirmed && confirmed.vector.asOfMs >= (served?.vector.asOfMs ?? 0)) {
        return this.#accept(confirmed)
      }
      const { currency, value, was } = change
      const message = `${currency} changed from ${was} to ${value} per euro; a second source must confirm this, or set RATES_BAND=off`
      poller.reportImplausible(new SourceError('OUT_OF_BAND', message))
      implausible.push(candidate)
      return 'ignored'
    }
    if (served === null) return this.#accept(candidate)
    const newerMs = vector.asOfMs - served.vector.asOfMs
    if (newerMs < 0 && served.vector.source === 'snapshot') {
      const message = `the rates of ${vector.asOf} are older than the built-in rates of ${served.vector.asOf}`
      poller.reportImplausible(new SourceError('DATE_OLD', message))
      return 'ignored'
    }
    if (newerMs < 0) return -newerMs <= OLDER_CONFIRMS_MAX_MS ? 'older' : 'ignored'
    const isSame = vector.source === served.vector.source && agree(vector, served.vector, 0)
    return newerMs === 0 && (rank > served.rank || isSame)
      ? this.#confirm(poller)
      : this.#accept(candidate)
  }

  #accept({ poller, rank, vector }: Candidate): 'settled' {
    this.#replace(vector, rank)
    this.#confirm(poller)
    this.#context.onAccepted(vector)
    return 'settled'
  }

  #replace(vector: RateVector, rank: number): void {
    const rates = ratesOf(vector.perEur)
    this.#served = { vector, rank, rates, confirmed: null, staleFrom: Number.NEGATIVE_INFINITY }
  }

  #confirm({ source }: SourcePoller): 'settled' {
    const served = this.#served
    if (served === null) return 'settled'
    const at = this.#context.clock.now()
    const until = at + Math.max(CONFIRMED_MIN_MS, CONFIRMED_REFRESHES * source.refreshMs)
    const staleFrom = Math.min(until, served.vector.asOfMs + this.#context.staleAfterMs)
    this.#served = { ...served, confirmed: { by: source.name, at }, staleFrom }
    return 'settled'
  }

  #refreshAfter(ms: number): void {
    if (this.#isStopped || this.#pollers.length === 0) return
    this.#cancelTimer()
    this.#nextAt = this.#context.clock.now() + ms
    this.#cancelTimer = this.#context.schedule.after(ms, () => void this.refresh())
  }
}

/**
 * Whether two implausible candidates confirm each other. Sources of the same family cannot, because they publish the
 * same rates. Partial sources cannot, because the error may be in the source that completed them.
 */
function confirm(left: Candidate, right: Candidate): boolean {
  const [a, b] = [left.poller.source, right.poller.source]
  if (a.family === b.family || a.isPartial || b.isPartial) return false
  return agree(left.vector, right.vector)
}
