import type { Clock, Schedule } from '../base/clock.ts'
import { OFFLINE_RANK, type RateBoard, type Standing } from './board.ts'
import type { Pair, PerEur, Rates } from './currencies.ts'
import { RateFeedError } from './errors.ts'
import type { HistoryQuery, RateLedger, RecordedVector, Recorder } from './history.ts'
import type { SourceKeeper, SourceRecord } from './keeper.ts'
import type { LastGood } from './last-good.ts'
import type { HourlyWarning } from './log.ts'
import type { Rounds } from './rounds.ts'
import { SourceError } from './source-error.ts'
import { SNAPSHOT } from './sources/snapshot.ts'
import { momentOf, NO_HELPERS, type Quote, vectorOf } from './vector.ts'

/** Longest wait of a request while no vector exists at all. */
const COLD_WAIT_MS = 10_000
/** How far a kept vector's date may be ahead of our clock. */
const CLOCK_SKEW_MS = 3_600_000

/** When rates are too old to be given. */
interface StalePolicy {
  /** Replies say so when the date of their rates is further back than this, milliseconds. */
  readonly staleAfterMs: number
  /** Refuse all stale rates. */
  readonly strict: boolean
  /** Refuse stale rates whose date is further back than this, milliseconds; null never does. */
  readonly maxStaleMs: number | null
}

/** The reply of `GET /`. */
export interface RateAnswer {
  /** `{"status":true,"result":{"datetime":…,"rate":{…}}}`; of old rates `stale` and `as_of` follow. */
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
  /** The same and `content-length`, as names and values in turn: the form that Node sends fastest. */
  readonly rawHeaders: string[]
}

/** What is known about the rates beside the rates. */
export interface RateMeta {
  /** The source served; several joined by `+` when parts come from others. */
  source: string
  /** Where a kept vector once came from. */
  origin: string | null
  asOf: string
  ageSeconds: number
  stale: boolean
  confirmedBy: string | null
  confirmedAt: string | null
  /** Pairs computed from a stand-in, as `CNHJPY=CNYJPY`. */
  proxies: string[]
  perEur: PerEur
  nextRefresh: string | null
}

/** The reply of `GET /?detail=1`, but for `status`. */
export interface RateDetail {
  /** `stale` and `as_of` are there when the rates are older than RATES_STALE_AFTER. */
  result: { datetime: string; rate: Rates; stale?: true; as_of?: string }
  meta: RateMeta
}

/** The state of the feed, for `/healthz`. */
export interface RateHealth {
  /** Whether `GET /` answers. */
  serving: boolean
  /** `degraded`: it answers, with stale rates. */
  health: 'ok' | 'degraded' | 'down'
  vector: Omit<RateMeta, 'perEur'> | null
  sources: SourceRecord[]
  /** Vectors that wait to be recorded; null when none are. */
  recordsPending: number | null
}

/** What a service is made of; `openRateFeed` puts it together. */
export interface RateFeedParts {
  readonly board: RateBoard
  readonly rounds: Rounds
  /** In the operator's order. */
  readonly keepers: readonly SourceKeeper[]
  readonly local: readonly SourceKeeper[]
  /** `lastgood` and `snapshot` as listed. */
  readonly offline: readonly ('lastgood' | 'snapshot')[]
  readonly lastGood: LastGood | null
  readonly recorder: Recorder | null
  readonly ledger: RateLedger | null
  readonly policy: StalePolicy
  readonly clock: Clock
  readonly schedule: Schedule
  readonly warning: HourlyWarning
}

/** Answers with the rates of the moment; it never waits for a source once any vector exists. */
export class RateFeedService {
  readonly #parts: RateFeedParts
  /** The answer of one second, made once. */
  #made: { standing: Standing; second: number; answer: RateAnswer } | null = null

  constructor(parts: RateFeedParts) {
    this.#parts = parts
  }

  /** Reads what is on this machine, so that there is an answer at once, and starts the rounds. */
  async open(): Promise<void> {
    for (const kind of this.#parts.offline) {
      if (await this.#readKept(kind)) break
    }
    // A round with nothing but files takes no time worth mentioning; others run behind.
    const { keepers, local, rounds } = this.#parts
    const round = rounds.run().then(() => this.#warnWhenStale())
    if (local.length === keepers.length) await round
    else await Promise.all(local.map((keeper) => keeper.ask()))
  }

  /** Asks the sources that are due, and waits for all of them. */
  refresh(): Promise<void> {
    return this.#parts.rounds.runWithOverlay()
  }

  /** Stops asking; resolves when nothing is being written. */
  async close(): Promise<void> {
    this.#parts.rounds.stop()
    this.#parts.recorder?.stop()
    await this.#parts.lastGood?.settled()
    await this.#parts.recorder?.flush()
    this.#parts.recorder?.stop()
  }

  /** The reply of `GET /`. Errors: RateFeedError RATES_NONE_YET, RATES_STALE. */
  answer(): RateAnswer | Promise<RateAnswer> {
    const standing = this.#parts.board.standing
    if (standing === null) return this.#waitForFirst().then((first) => this.#answerOf(first))
    return this.#answerOf(standing)
  }

  /** The reply of `GET /?detail=1`. Errors: as `answer`. */
  async detail(): Promise<RateDetail> {
    const standing = this.#parts.board.standing ?? (await this.#waitForFirst())
    const now = this.#parts.clock.now()
    this.#refuseTooStale(standing, now)
    return {
      result: this.#resultOf(standing, now),
      meta: { ...this.#metaOf(standing, now), perEur: standing.vector.perEur },
    }
  }

  /** The state of the feed. */
  health(): RateHealth {
    const { board, keepers, clock, recorder } = this.#parts
    const now = clock.now()
    const standing = board.standing
    const stale = standing === null || now >= standing.staleFrom
    const serving = standing !== null && !this.#isTooStale(standing, now)
    return {
      serving,
      health: serving ? (stale ? 'degraded' : 'ok') : 'down',
      vector: standing === null ? null : this.#metaOf(standing, now),
      sources: keepers.map((keeper) => keeper.record()),
      recordsPending: recorder?.pending ?? null,
    }
  }

  /** Seconds after which a refused client may find rates, 1..3600. */
  retryAfterSeconds(): number {
    const ms = this.#parts.rounds.nextAt - this.#parts.clock.now()
    return Math.min(Math.max(Math.ceil(ms / 1_000), 1), 3_600)
  }

  /**
   * The recorded rates of `pair`, oldest first.
   * Errors: RateFeedError HISTORY_OFF, HISTORY_RANGE_INVALID.
   */
  async history(
    pair: Pair,
    query: HistoryQuery,
  ): Promise<readonly (RecordedVector & { rate: number })[]> {
    const { ledger } = this.#parts
    if (ledger === null) {
      throw new RateFeedError('HISTORY_OFF', 'rates are not recorded here; see RATES_RECORD')
    }
    const { from, to } = query
    for (const date of [from, to]) {
      if (date !== null && (date.length !== 10 || momentOf(date) === null)) {
        throw new RateFeedError('HISTORY_RANGE_INVALID', 'from and to are dates: YYYY-MM-DD')
      }
    }
    if (from !== null && to !== null && from > to) {
      throw new RateFeedError('HISTORY_RANGE_INVALID', 'from is after to')
    }
    const rows = await ledger.history(query)
    return rows.flatMap((row) => {
      const rate = row.record.rate[pair]
      return rate === undefined ? [] : [{ ...row, rate }]
    })
  }

  async #readKept(kind: 'lastgood' | 'snapshot'): Promise<boolean> {
    const { board, clock, lastGood, warning } = this.#parts
    if (kind === 'lastgood' && lastGood === null) return false
    try {
      const quote: Quote =
        kind === 'snapshot' || lastGood === null ? SNAPSHOT : await lastGood.read()
      if (kind === 'lastgood' && quote.asOfMs > clock.now() + CLOCK_SKEW_MS) {
        throw new SourceError('DATE_FUTURE', `it is dated ${quote.asOf}, which is to come`)
      }
      board.replace(vectorOf(kind, quote, NO_HELPERS), OFFLINE_RANK)
      return true
    } catch (error) {
      if (!(error instanceof SourceError)) throw error
      // No file is what a first start looks like.
      const absent =
        error.cause instanceof Error && 'code' in error.cause && error.cause.code === 'ENOENT'
      if (!absent) {
        warning.warn(
          'lastgood',
          { code: error.code },
          `the kept rates are no use: ${error.message}`,
        )
      }
      return false
    }
  }

  async #waitForFirst(): Promise<Standing> {
    const { board, rounds, schedule } = this.#parts
    let forget = () => {}
    const waited = new Promise<void>((resolve) => {
      forget = schedule.after(COLD_WAIT_MS, resolve)
    })
    await Promise.race([rounds.run(), waited])
    forget()
    if (board.standing === null) {
      throw new RateFeedError('RATES_NONE_YET', 'no source has given rates yet')
    }
    return board.standing
  }

  #answerOf(standing: Standing): RateAnswer {
    const now = this.#parts.clock.now()
    const second = Math.floor(now / 1_000)
    const made = this.#made
    if (made !== null && made.second === second && made.standing === standing) return made.answer
    this.#warnWhenStale()
    this.#refuseTooStale(standing, now)
    const { source, asOf, stale, proxies } = this.#metaOf(standing, now)
    const result = this.#resultOf(standing, now)
    const body = JSON.stringify({ status: true, result })
    const headers = {
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'x-rates-source': source,
      'x-rates-as-of': asOf,
      'x-rates-stale': String(stale),
      ...(proxies.length > 0 ? { 'x-rates-proxy': proxies.join(', ') } : {}),
    }
    const rawHeaders = [
      ...Object.entries(headers).flat(),
      'content-length',
      String(Buffer.byteLength(body)),
    ]
    const answer = { body, headers, rawHeaders }
    this.#made = { standing, second, answer }
    return answer
  }

  #metaOf(standing: Standing, now: number): Omit<RateMeta, 'perEur'> {
    const { vector, confirmed, staleFrom } = standing
    const { nextAt } = this.#parts.rounds
    return {
      source: vector.source,
      origin: vector.origin,
      asOf: vector.asOf,
      ageSeconds: Math.max(0, Math.floor((now - vector.asOfMs) / 1_000)),
      stale: now >= staleFrom,
      confirmedBy: confirmed?.by ?? null,
      confirmedAt: confirmed === null ? null : new Date(confirmed.at).toISOString(),
      proxies: vector.cnhIsCny ? ['CNHJPY=CNYJPY'] : [],
      nextRefresh: nextAt === 0 ? null : new Date(nextAt).toISOString(),
    }
  }

  #resultOf({ vector, rates }: Standing, now: number): RateDetail['result'] {
    const old = now - vector.asOfMs > this.#parts.policy.staleAfterMs
    const age = old ? { stale: true as const, as_of: vector.asOf } : {}
    return { datetime: datetimeOf(now), rate: rates, ...age }
  }

  #isTooStale(standing: Standing, now: number): boolean {
    const { strict, maxStaleMs } = this.#parts.policy
    if (now < standing.staleFrom) return false
    return strict || (maxStaleMs !== null && now - standing.vector.asOfMs > maxStaleMs)
  }

  #refuseTooStale(standing: Standing, now: number): void {
    if (!this.#isTooStale(standing, now)) return
    const { asOf, source } = standing.vector
    throw new RateFeedError(
      'RATES_STALE',
      `the latest rates are of ${asOf} from ${source}, and no live source gives newer ones`,
    )
  }

  #warnWhenStale(): void {
    const { board, clock, warning } = this.#parts
    const standing = board.standing
    if (standing !== null && clock.now() < standing.staleFrom) {
      warning.recovered('stale', { source: standing.vector.source }, 'the rates are live again')
      return
    }
    const { source, asOf } = standing?.vector ?? { source: null, asOf: null }
    const text = 'the rates are stale: no live source gives newer ones'
    warning.warn('stale', { source, asOf }, text)
  }
}

/** `now` as `YYYY-MM-DD hh:mm:ss+0`, GMT. Source: specification, “result.datetime”. */
function datetimeOf(now: number): string {
  return `${new Date(now).toISOString().slice(0, 19).replace('T', ' ')}+0`
}
