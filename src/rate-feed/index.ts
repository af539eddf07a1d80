export type { Schedule } from '../base/clock.ts'
export { formatRateTable, parseRateDetail } from './api/detail.ts'
export { rateFeedComponent } from './component.ts'
export { type FeedLog, RateFeedError } from './errors.ts'
export { PAIRS } from './rates.ts'
export {
  type HistoryQuery,
  parseVectorRecord,
  RATES_DATABASE,
  type RateLedger,
  type RecordedVector,
  type VectorRecord,
} from './recorder.ts'
export { type RateDetail, RateFeed, type RateFeedDeps } from './service.ts'
export { parseSourceList } from './sources.ts'
