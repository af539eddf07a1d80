export type { Attachment, AttachmentBytes, AttachmentsClient, ByteRange } from './attachments.ts'
export type { Change, ChangesOptions, Entry } from './changes.ts'
export type {
  ChangeOptions,
  DatabaseClient,
  QueryFilter,
  QueryOptions,
  Read,
  Written,
} from './database.ts'
export { ClientError, VerificationError } from './error.ts'
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
export type { Revision, Stored } from './verification.ts'
