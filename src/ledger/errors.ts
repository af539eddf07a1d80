import { CodedError } from '../base/coded-error.ts'
import { statusOfStrictJson } from '../base/strict-json.ts'
import { statusOfFilter } from '../filter/index.ts'
import { statusOfPeers } from './peers/errors.ts'

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

/** Of the store's refusals, those that a client can do something about. */
const statusOfSearch = { SEARCH_TOO_LARGE: 422, SEARCH_INTERRUPTED: 503 } as const

/** The HTTP status of each refusal of the ledger and of the JSON that it is given. */
export const statusOf: Record<LedgerErrorCode, number> &
  typeof statusOfStrictJson &
  typeof statusOfFilter &
  typeof statusOfPeers &
  typeof statusOfSearch = {
  ...statusOfStrictJson,
  ...statusOfFilter,
  ...statusOfPeers,
  ...statusOfSearch,
  DATABASE_NAME_INVALID: 400,
  DATABASE_NAME_RESERVED: 400,
  DATABASE_NOT_FOUND: 404,
  DATABASE_EXISTS: 409,
  ITEM_ID_INVALID: 400,
  ITEM_ID_MISMATCH: 400,
  ITEM_INVALID: 400,
  ITEM_NOT_FOUND: 404,
  ITEM_EXISTS: 409,
  ITEM_TOO_LARGE: 413,
  ATTACHMENT_NAME_INVALID: 400,
  ATTACHMENT_TYPE_INVALID: 415,
  ATTACHMENT_NOT_FOUND: 404,
  ATTACHMENT_TOO_LARGE: 413,
  PRECONDITION_FAILED: 412,
  ATTACHMENT_LOST: 500,
  DIGEST_INVALID: 400,
  DIGEST_MISMATCH: 400,
  UPLOADS_BUSY: 503,
  HEIGHT_UNKNOWN: 404,
  PRECONDITION_INVALID: 400,
  IDEMPOTENCY_KEY_INVALID: 400,
  IDEMPOTENCY_KEY_REUSED: 422,
  UNIT_EMPTY: 400,
  UNIT_TOO_LARGE: 413,
  OWNED_BY_NETWORK: 409,
  SERVERID_INVALID: 400,
  SERVERID_UNKNOWN: 404,
  POSITION_INVALID: 400,
  POSITION_UNKNOWN: 404,
  FEED_UNAVAILABLE: 503,
  FILTER_AFTER_ORDER: 400,
  INDEX_PATH_INVALID: 400,
  INDEX_EXISTS: 409,
  INDEX_NOT_FOUND: 404,
  INDEXES_TOO_MANY: 422,
  CHAIN_DOUBTED: 503,
  WRITER_BUSY: 503,
  WRITER_STOPPED: 503,
  STORE_FULL: 507,
  STORE_DAMAGED: 503,
  STORE_FAILED: 503,
  NOTHING_TO_ERASE: 409,
  REVISION_CURRENT: 409,
  REVISION_NEEDED: 409,
  REVISION_ERASED: 410,
  SIZE_UNKNOWN: 404,
  TILE_UNKNOWN: 404,
  LOG_BEHIND: 503,
  LOG_STOPPED: 503,
  LOG_CONTRADICTED: 503,
  LOG_HEAD_DAMAGED: 500,
  STORE_ROLLED_BACK: 500,
  FOLDER_KEY_MISSING: 500,
}
