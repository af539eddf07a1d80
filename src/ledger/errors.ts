import { CodedError } from '../base/coded-error.ts'

/** Every way the ledger refuses. A new code does not compile until `statusOf` answers for it. */
export type LedgerErrorCode =
  | 'DATABASE_NAME_INVALID' // too long, empty, or with characters that paths cannot hold
  | 'DATABASE_NAME_RESERVED' // the name belongs to the service
  | 'DATABASE_NOT_FOUND'
  | 'DATABASE_EXISTS'
  | 'ITEM_ID_INVALID'
  | 'ITEM_ID_MISMATCH' // the body's `id` is not the one in the path
  | 'ITEM_INVALID' // not a JSON object
  | 'ITEM_NOT_FOUND'
  | 'ITEM_EXISTS'
  | 'ITEM_TOO_LARGE'
  | 'ATTACHMENT_NAME_INVALID'
  | 'ATTACHMENT_TYPE_INVALID' // not a media type
  | 'ATTACHMENT_NOT_FOUND'
  | 'ATTACHMENT_TOO_LARGE'
  | 'ATTACHMENT_LOST' // its bytes are not in the data folder
  | 'DIGEST_INVALID' // a digest header that cannot be read
  | 'DIGEST_MISMATCH' // other bytes arrived than the client says it sent
  | 'UPLOADS_BUSY' // as many attachments are arriving as may
  | 'HEIGHT_UNKNOWN' // a block that the chain does not have yet
  | 'PRECONDITION_INVALID' // If-Match or If-None-Match is not a list of entity tags
  | 'PRECONDITION_FAILED' // the item is not in the state that they name
  | 'IDEMPOTENCY_KEY_INVALID'
  | 'IDEMPOTENCY_KEY_REUSED' // the key was that of another request
  | 'UNIT_EMPTY' // a list without entries
  | 'UNIT_TOO_LARGE' // more entries or bytes than one block may hold
  | 'OWNED_BY_NETWORK' // a network's database is changed by its requests alone
  | 'SERVERID_INVALID'
  | 'SERVERID_UNKNOWN'
  | 'POSITION_INVALID' // not `<height>.<index>`, or not of an entry of the item
  | 'POSITION_UNKNOWN' // no entry stands there
  | 'FEED_UNAVAILABLE' // too many follow the changes, or the node is closing
  | 'FILTER_AFTER_ORDER' // `after` beside an order of its own
  | 'INDEX_PATH_INVALID'
  | 'INDEX_EXISTS'
  | 'INDEX_NOT_FOUND'
  | 'INDEXES_TOO_MANY' // of one database
  | 'CHAIN_DOUBTED' // peers have more of the node's own chain than the node, or another one
  | 'WRITER_BUSY' // the queue is full
  | 'WRITER_STOPPED' // the store failed, or the node is closing
  | 'STORE_FULL'
  | 'STORE_DAMAGED' // a part of the store that is needed cannot be read
  | 'STORE_FAILED' // the disk or the system refused a file operation
  | 'NOTHING_TO_ERASE' // no former revision, or all are erased
  | 'REVISION_CURRENT' // the current revision is not erased: change or delete the item first
  | 'REVISION_NEEDED' // it ended an attachment that is not to be erased
  | 'REVISION_ERASED' // the item as it was then
  | 'SIZE_UNKNOWN' // the log has not as many blocks, or never a number like that
  | 'TILE_UNKNOWN' // no tile of the log, or not yet
  | 'LOG_BEHIND' // too much was written to be signed in time
  | 'LOG_STOPPED' // the signing thread failed, or the node is closing
  | 'LOG_CONTRADICTED' // what is stored is not what was signed
  | 'LOG_HEAD_DAMAGED' // the file of the signed head cannot be read as one
  | 'STORE_ROLLED_BACK' // the store is shorter than what was signed
  | 'FOLDER_KEY_MISSING' // a store without the key it belongs to

/** Thrown by `LedgerService`; the message names the database and the item. */
export class LedgerError extends CodedError<LedgerErrorCode> {
  override readonly name = 'LedgerError'
}
