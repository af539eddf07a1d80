export type { Attachment, Entry, ErasedAttachment } from '../chain/portable.ts'
export type { Aggregated, AggregateOptions, CountOptions } from './aggregation.ts'
export type { AttachmentBytes, AttachmentsClient, ByteRange } from './attachments.ts'
export type { Change, ChangesOptions } from './changes.ts'
export type {
  ChangeOptions,
  DatabaseClient,
  HistoryOptions,
  QueryOptions,
  Written,
} from './database.ts'
export { ClientError, VerificationError } from './error.ts'
export type { Condition, Operators, Order, QueryFilter, Where } from './filter.ts'
export type { MemberName, Patch, Read, Revision, Selected, Stored } from './item.ts'
export { type ChangeRequest, LedgerClient, type RecordedChanges } from './ledger.ts'
export type { Operations } from './operations.ts'
export type {
  CheckpointStore,
  ClientOptions,
  Content,
  RequestOptions,
  Timing,
  VerifyOptions,
} from './transport.ts'
