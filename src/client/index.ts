export type { Attachment, AttachmentBytes, AttachmentsClient, ByteRange } from './attachments.ts'
export type { Timing } from './back-off.ts'
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
export { type ChangeRequest, LedgerClient, type Recorded } from './ledger.ts'
export type { Operations } from './operations/all.ts'
export type { Revision, Stored } from './revision.ts'
export type { ClientOptions, Content, RequestOptions } from './transport.ts'
export type { CheckpointPlace, VerifyOptions } from './verify-options.ts'
