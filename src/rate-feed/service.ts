import { join } from 'node:path'
import { type Clock, type Schedule, systemSchedule } from '../base/clock.ts'
import { errorCode } from '../base/errors.ts'
import { CurrentRates, type ServedRates } from './current-rates.ts'
import { type FeedLog, HourlyWarning, RateFeedError, RateSourceError } from './errors.ts'
import { formatInstant, requirePast, SourcePoller } from './poller.ts'
import { type Pair, parseInstant, type RateVector, SNAPSHOT } from './rates.ts'
import { type HistoryQuery, type RateLedger, Recorder } from './recorder.ts'
import {
  type Get,
  openSources,
  readVectorFile,
  type SourceEntry,
  writeVectorFile,
} from './sources.ts'

/** Maximum time that a request waits for the first rates. */
const FIRST_RATES_MS = 10_000

/** Delay of the timer of a refresh after which a request starts the refresh. */
const LATE_MS = 1_000

export interface RateFeedSettings {
  /** Sources in order of preference. */
  readonly sources: readonly SourceEntry[]
  /** Whether stale rates are rejected. */
  readonly strict: boolean
  /** Age of the date from which replies mark rates as stale, in milliseconds. */
  readonly staleAfterMs: number
  /** Folder for the file of the source `lastgood`; null if the rates are not stored. */
  readonly folder: string | null
}

export interface RateFeedDeps {
  readonly settings: RateFeedSettings
  readonly clock: Clock
  /** Returns a random number in [0, 1) for the intervals of requests. */
  readonly random: () => number
  readonly log: FeedLog
  /** Sends requests to sources, and rejects addresses that are not allowed. */
  readonly get: Get
  /** Records accepted vectors. Null disables recording. */
  readonly ledger: RateLedger | null
  /** Defaults to the timers of the process. */
  readonly schedule?: Schedule
}

/** The rates and their source, as in `GET /?detail=1`. */
export type RateDetail = Awaited<ReturnType<RateFeed['detail']>>

/** The rate feed. A request for rates waits for a source only until the first rates are available. */
export class RateFeed {
  readonly #settings: RateFeedSettings
  readonly #clock: Clock
  readonly #schedule: Schedule
  readonly #warning: HourlyWarning
  readonly #pollers: readonly SourcePoller[]
  readonly #current: CurrentRates
  readonly #ledger: RateLedger | null
  readonly #recorder: Recorder | null
  /** Path of the file of the source `lastgood`; null if the rates are not stored. */
  readonly #lastGoodPath: string | null
  /** Resolves when all writes of `#lastGoodPath` so far are done. Writes run one at a time. */
  #writing: Promise<void> = Promise.resolve()
  /** The reply for the current second. */
  #cached: { served: ServedRates; second: number; detail: RateDetail } | null = null

  constructor({ settings, clock, random, log, get, ledger, schedule }: RateFeedDeps) {
    const { sources, folder, staleAfterMs } = settings
    this.#settings = settings
    this.#clock = clock
    this.#schedule = schedule ?? systemSchedule
    this.#warning = new HourlyWarning(log, clock)
    this.#ledger = ledger
    this.#recorder =
      ledger === null ? null : new Recorder(ledger, clock, this.#schedule, this.#warning)
    const isKept = folder !== null && sources.some(({ kind }) => kind === 'lastgood')
    this.#lastGoodPath = isKept ? join(folder, 'rates.json') : null
    const context = { clock, schedule: this.#schedule, random, warning: this.#warning }
    this.#pollers = openSources(sources, get, () => clock.now()).map(
      (source) => new SourcePoller(source, context),
    )
    const onAccepted = (vector: RateVector) => this.#store(vector)
    this.#current = new CurrentRates(this.#pollers, { ...context, staleAfterMs, onAccepted })
  }

  /** Reads the local sources, so that rates are available at once, and starts refreshing. */
  async open(): Promise<void> {
    for (const { kind } of this.#settings.sources) {
      if ((kind === 'lastgood' || kind === 'snapshot') && (await this.#serveStored(kind))) break
    }
    const refreshed = this.#current.refresh().then(() => this.#warnIfStale())
    const local = this.#pollers.filter(({ source }) => source.isLocal)
    // Waits for the refresh only if all sources are local, because local sources are fast.
    if (local.length === this.#pollers.length) await refreshed
    else await Promise.all(local.map((poller) => poller.poll()))
  }

  refresh(): Promise<void> {
    return this.#current.refresh()
  }

  /** Stops refreshing. Resolves when all writes have completed. */
  async close(): Promise<void> {
    this.#current.stop()
    this.#recorder?.stop()
    await this.#writing
    await this.#recorder?.flush()
    this.#recorder?.stop()
  }

  /**
   * Returns the rates, as a promise only if no rates are available yet. Returns the same object for up to a second,
   * unless the rates change. Errors: RateFeedError RATES_NONE_YET, RATES_STALE.
   */
  current(): RateDetail | Promise<RateDetail> {
    const { served } = this.#current
    if (served === null) return this.#firstRates().then(() => this.current())
    const second = Math.floor(this.#clock.now() / 1_000)
    const cached = this.#cached
    if (cached?.second === second && cached.served === served) return cached.detail
    this.#warnIfStale()
    const detail = this.#createDetail(served)
    this.#cached = { served, second, detail }
    return detail
  }

  /** Returns the rates with all details, computed for this call. Errors: those of `current`. */
  async detail() {
    return this.#createDetail(this.#current.served ?? (await this.#firstRates()))
  }

  /** Returns the state of the feed for `/healthz`. */
  health() {
    const now = this.#clock.now()
    const { served } = this.#current
    const isServing = served !== null && !this.#isRefused(served, now)
    const quality = isServing && now < served.staleFrom ? ('ok' as const) : ('degraded' as const)
    return {
      /** Whether `GET /` succeeds. */
      status: isServing,
      health: isServing ? quality : ('down' as const),
      vector: served === null ? null : this.#createMeta(served, now),
      recordsPending: this.#recorder?.pending ?? null,
      sources: this.#pollers.map((poller) => poller.state()),
    }
  }

  /** Returns the seconds until the next refresh, 1 to 3,600, as the delay after which a client can retry. */
  retryAfterSeconds(): number {
    const ms = this.#current.nextAt - this.#clock.now()
    return Math.min(Math.max(Math.ceil(ms / 1_000), 1), 3_600)
  }

  /** Returns the recorded rates of `pair`, oldest first. Errors: RateFeedError HISTORY_OFF, HISTORY_RANGE_INVALID. */
  async history(pair: Pair, query: HistoryQuery) {
    if (this.#ledger === null) {
      throw new RateFeedError(
        'HISTORY_OFF',
        'rates are not recorded; to record rates, set RATES_RECORD=1',
      )
    }
    const { from, to } = query
    const dates = [from, to].filter((date) => date !== null)
    if (dates.some((date) => date.length !== 10 || parseInstant(date) === null)) {
      throw new RateFeedError('HISTORY_RANGE_INVALID', 'from and to must be dates: YYYY-MM-DD')
    }
    if (from !== null && to !== null && from > to) {
      throw new RateFeedError('HISTORY_RANGE_INVALID', 'from is after to')
    }
    const rows = await this.#ledger.history(query)
    return rows.flatMap((row) => {
      const rate = row.record.rate[pair]
      return rate === undefined ? [] : [{ ...row, rate }]
    })
  }

  /** Serves rates that need no source. Returns false if there are none. */
  async #serveStored(source: 'lastgood' | 'snapshot'): Promise<boolean> {
    if (source === 'snapshot') {
      this.#current.serveStored({ source, ...SNAPSHOT })
      return true
    }
    if (this.#lastGoodPath === null) return false
    try {
      const quote = await readVectorFile(this.#lastGoodPath)
      requirePast(quote, this.#clock)
      this.#current.serveStored({ source, ...quote })
      return true
    } catch (error) {
      if (!(error instanceof RateSourceError)) throw error
      const { cause, code, message } = error
      // No warning for a missing file, because there is no file until the first rates are stored.
      const isAbsent = errorCode(cause) === 'ENOENT'
      const text = `the stored rates cannot be used: ${message}`
      if (!isAbsent) this.#warning.warn('lastgood', { code }, text)
      return false
    }
  }

  #store(vector: RateVector): void {
    this.#recorder?.add(vector)
    const path = this.#lastGoodPath
    if (path === null) return
    const write = () => writeVectorFile(path, vector)
    this.#writing = this.#writing.then(write).catch((error: unknown) => {
      const text = 'the rates cannot be stored for the next start'
      this.#warning.warn('storing', { err: error }, text)
    })
  }

  async #firstRates(): Promise<ServedRates> {
    const { promise: timeout, resolve } = Promise.withResolvers<void>()
    const cancel = this.#schedule.after(FIRST_RATES_MS, resolve)
    await Promise.race([this.#current.refresh(), timeout])
    cancel()
    const { served } = this.#current
    if (served !== null) return served
    throw new RateFeedError('RATES_NONE_YET', 'no source has provided rates yet; try again later')
  }

  #createDetail(served: ServedRates) {
    const now = this.#clock.now()
    // The timer is late after the computer was suspended, because it does not count that time.
    const { nextAt } = this.#current
    if (nextAt !== 0 && now > nextAt + LATE_MS) void this.#current.refresh()
    const { vector, rates, perEur } = served
    const { asOf, asOfMs, source } = vector
    if (this.#isRefused(served, now)) {
      throw new RateFeedError(
        'RATES_STALE',
        `the latest rates are of ${asOf} from ${source}, and no live source provides newer ones`,
      )
    }
    const isOld = now - asOfMs > this.#settings.staleAfterMs
    const age = isOld ? { stale: true as const, as_of: asOf } : {}
    return {
      result: { datetime: formatDateTime(now), rate: rates, ...age },
      meta: { ...this.#createMeta(served, now), perEur },
    }
  }

  #createMeta({ vector, confirmed, staleFrom }: ServedRates, now: number) {
    const { nextAt } = this.#current
    return {
      source: vector.source,
      /** Original source of stored rates. */
      origin: vector.origin,
      asOf: vector.asOf,
      ageSeconds: Math.max(0, Math.floor((now - vector.asOfMs) / 1_000)),
      stale: now >= staleFrom,
      confirmedBy: confirmed?.by ?? null,
      confirmedAt: formatInstant(confirmed?.at ?? null),
      /** Pairs that are computed from a substitute currency. */
      proxies: vector.perEur.CNH === undefined ? ['CNHJPY=CNYJPY'] : [],
      nextRefresh: nextAt === 0 ? null : formatInstant(nextAt),
    }
  }

  /** Whether the settings forbid serving these rates, because they are stale. */
  #isRefused({ staleFrom }: ServedRates, now: number): boolean {
    return this.#settings.strict && now >= staleFrom
  }

  #warnIfStale(): void {
    const { served } = this.#current
    const { source = null, asOf = null } = served?.vector ?? {}
    if (served !== null && this.#clock.now() < served.staleFrom) {
      this.#warning.recovered('stale', { source }, 'the rates are live again')
      return
    }
    const text = 'the rates are stale: no live source provides newer ones'
    this.#warning.warn('stale', { source, asOf }, text)
  }
}

/** Formats `now` as `YYYY-MM-DD hh:mm:ss+0` in GMT. Source: specification, “result.datetime”. */
function formatDateTime(now: number): string {
  return `${new Date(now).toISOString().slice(0, 19).replace('T', ' ')}+0`
}
