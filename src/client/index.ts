export type { Attachment, Entry, ErasedAttachment } from '../chain/portable.ts'
export type { Aggregated, AggregateOptions, CountOptions } from './aggregation.ts'
export type { AttachmentBytes, AttachmentsClient, ByteRange } from './attachments.ts'
export type { ChangesOptions, FeedEntry } from './changes.ts'
export type {
  ChangeOptions,
  ChangeResult,
  DatabaseClient,
  ErasedItems,
  EraseOptions,
  HistoryOptions,
  QueryOptions,
} from './database.ts'
export { ClientError, VerificationError } from './error.ts'
export type { MemberCondition, Operators, Order, QueryFilter, QueryWhere } from './filter.ts'
export type { MemberName, Patch, Read, Revision, Selected, Stored } from './item.ts'
export { type ChangeInput, LedgerClient, type RecordResult } from './ledger.ts'
export type { Operations } from './operations.ts'
export type {
  CheckpointStore,
  ClientOptions,
  Content,
  PastOptions,
  RequestOptions,
  Timing,
  VerifiedReadsOptions,
  WriteOptions,
} from './transport.ts'
