export { type RateFeedComponentDeps, rateFeedComponent } from './component.ts'
export { PAIRS, type Pair, type Rates } from './currencies.ts'
export { RateFeedError, type RateFeedErrorCode, SourceListError } from './errors.ts'
export { createRateFeed, type RateFeedDeps, type RateFeedSettings } from './feed.ts'
export {
  type HistoryQuery,
  type LedgerPosition,
  RATES_DATABASE,
  type RateLedger,
  type RecordedVector,
  type VectorRecord,
  vectorRecordOf,
} from './history.ts'
export type { FeedLog } from './log.ts'
export type { Schedule } from './schedule.ts'
export type { RateDetail, RateFeedService } from './service.ts'
export { DEFAULT_SOURCES, parseSourceList, type SourceEntry } from './source-list.ts'
export type { Get } from './sources/http-source.ts'
export { parseRateDetail, rateTable } from './table.ts'
