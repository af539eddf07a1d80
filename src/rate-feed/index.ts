export type { Schedule } from '../base/clock.ts'
export { rateFeedComponent } from './component.ts'
export { PAIRS } from './currencies.ts'
export { RateFeedError } from './errors.ts'
export { createRateFeed, type RateFeedDeps } from './feed.ts'
export {
  type HistoryQuery,
  RATES_DATABASE,
  type RateLedger,
  type RecordedVector,
  type VectorRecord,
  vectorRecordOf,
} from './history.ts'
export type { FeedLog } from './log.ts'
export type { RateDetail } from './service.ts'
export { parseSourceList } from './source-list.ts'
export { parseRateDetail, rateTable } from './table.ts'
