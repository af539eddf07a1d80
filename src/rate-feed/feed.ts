import { type Clock, type Schedule, systemSchedule } from '../base/clock.ts'
import { RateBoard } from './board.ts'
import { buildSources, PUBLIC_ADDRESSES, type SourceAddresses } from './build-sources.ts'
import { type RateLedger, Recorder } from './history.ts'
import { LastGood } from './last-good.ts'
import { type FeedLog, HourlyWarning } from './log.ts'
import { Rounds } from './rounds.ts'
import { RateFeedService } from './service.ts'
import type { SourceEntry } from './source-list.ts'
import type { Get } from './sources/http-source.ts'
import { documentOf, type RateVector } from './vector.ts'

/** What the operator decides. */
export interface RateFeedSettings {
  /** In the order they are tried. */
  readonly sources: readonly SourceEntry[]
  /** Refuse stale rates. */
  readonly strict: boolean
  /** Rates whose date is further back than this are stale, and the reply says so, milliseconds. */
  readonly staleAfterMs: number
  /** Refuse stale rates whose date is further back than this, milliseconds; null never does. */
  readonly maxStaleMs: number | null
  /** Where the last good vector is kept over restarts; null keeps it nowhere. */
  readonly folder: string | null
  /** The key at Open Exchange Rates; null when there is none. */
  readonly openExchangeRatesAppId: string | null
  /** False believes sources whatever they say. */
  readonly banded: boolean
}

/** What a feed needs of the world. */
export interface RateFeedDeps {
  readonly settings: RateFeedSettings
  readonly clock: Clock
  /** A number in [0, 1), for spreading refreshes. */
  readonly random: () => number
  readonly log: FeedLog
  /** One bounded GET; which addresses it may reach is its business. */
  readonly get: Get
  /** Where accepted vectors are recorded; null records nothing. */
  readonly ledger: RateLedger | null
  /** The machine's timers unless given. */
  readonly schedule?: Schedule
  /** Where the public sources are, unless given. */
  readonly addresses?: SourceAddresses
}

/**
 * A feed that is not open yet: `open` it, ask it, `close` it.
 *
 * Errors: SourceListError when a source lacks its key.
 */
export function createRateFeed(deps: RateFeedDeps): RateFeedService {
  const { settings, clock, random, ledger } = deps
  const schedule = deps.schedule ?? systemSchedule
  const warning = new HourlyWarning(deps.log, clock)
  const { keepers, local, companions } = buildSources(settings.sources, {
    clock,
    schedule,
    random,
    warning,
    get: deps.get,
    addresses: deps.addresses ?? PUBLIC_ADDRESSES,
    openExchangeRatesAppId: settings.openExchangeRatesAppId,
  })
  const offline = settings.sources.flatMap(({ kind }) =>
    kind === 'lastgood' || kind === 'snapshot' ? [kind] : [],
  )
  const keeps = settings.folder !== null && offline.includes('lastgood')
  const lastGood = keeps && settings.folder !== null ? new LastGood(settings.folder) : null
  const recorder = ledger === null ? null : new Recorder(ledger, clock, schedule, warning)
  const board = new RateBoard(clock, settings.staleAfterMs)
  const accepted = (vector: RateVector) => {
    recorder?.add(vector)
    lastGood?.write(documentOf(vector)).catch((error: unknown) => {
      warning.warn('keeping', { err: error }, 'the rates cannot be kept for the next start')
    })
  }
  const tools = { board, clock, schedule, banded: settings.banded, accepted }
  const rounds = new Rounds(keepers, companions, tools)
  return new RateFeedService({
    board,
    rounds,
    keepers,
    local,
    offline,
    lastGood,
    recorder,
    ledger,
    policy: settings,
    clock,
    schedule,
    warning,
  })
}
