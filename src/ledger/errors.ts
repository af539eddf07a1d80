import { CodedError } from '../base/coded-error.ts'

export const statusOfLedger = {
  DATABASE_NAME_INVALID: 400, // too long, empty, or with characters that a path cannot contain
  DATABASE_NAME_RESERVED: 400, // the name is part of a path of the API
  DATABASE_NOT_FOUND: 404,
  DATABASE_EXISTS: 409,
  ITEM_ID_INVALID: 400,
  ITEM_ID_MISMATCH: 400, // the body's `id` differs from the path
  ITEM_INVALID: 400, // not a JSON object
  ITEM_NOT_FOUND: 404,
  ITEM_EXISTS: 409,
  ITEM_TOO_LARGE: 413,
  ATTACHMENT_NAME_INVALID: 400,
  ATTACHMENT_TYPE_INVALID: 415, // not a media type
  ATTACHMENT_NOT_FOUND: 404,
  ATTACHMENT_TOO_LARGE: 413,
  ATTACHMENT_LOST: 500, // the bytes of the attachment are not in the store
  DIGEST_INVALID: 400, // malformed digest header
  DIGEST_MISMATCH: 400, // the bytes received do not match the client's digest
  UPLOADS_BUSY: 503, // too many concurrent uploads
  HEIGHT_UNKNOWN: 404, // the chain does not have a block of this height yet
  PRECONDITION_INVALID: 400, // If-Match or If-None-Match is not a list of entity tags
  PRECONDITION_FAILED: 412, // the item does not match If-Match or If-None-Match
  IDEMPOTENCY_KEY_INVALID: 400,
  IDEMPOTENCY_KEY_REUSED: 422, // another request used this key
  REASON_INVALID: 400, // the reason of a change is empty, too long, or not percent-encoded
  UNIT_EMPTY: 400, // a list without entries
  UNIT_TOO_LARGE: 413, // more entries or bytes than one block or erasure may have
  OWNED_BY_NETWORK: 409, // a network's database changes only through the network
  DATABASE_CHANGED: 503, // another process has just changed the database of a network
  SERVERID_INVALID: 400,
  SERVERID_UNKNOWN: 404,
  RANGE_INVALID: 400, // `from` or `to` is neither a height nor a time
  POSITION_INVALID: 400, // malformed, or the position of an entry that does not belong to the item
  POSITION_UNKNOWN: 404, // no entry at this position
  FEED_UNAVAILABLE: 503, // too many subscribers, or the node is closing
  FILTER_AFTER_ORDER: 400, // `after` or `cursor` combined with another order
  AGGREGATION_INVALID: 400, // too many, malformed or repeated paths
  AGGREGATIONS_BUSY: 503, // too many concurrent aggregations
  GROUPS_TOO_MANY: 422, // an aggregation with more groups than a reply may have
  SUM_TOO_LARGE: 422, // beyond the range of JSON numbers
  INDEX_PATH_INVALID: 400,
  INDEX_EXISTS: 409,
  INDEX_NOT_FOUND: 404,
  INDEXES_TOO_MANY: 422, // too many indexes for one database
  CHAIN_DOUBTED: 503, // a peer has a longer or different copy of the node's own chain
  WRITER_BUSY: 503, // the queue of the writer is full
  WRITER_STOPPED: 503, // the store failed, or the node is closing
  STORE_FULL: 507,
  STORE_DAMAGED: 503, // a required part of the store cannot be read
  STORE_FAILED: 503, // the disk or the system refused a file operation
  STORE_UNAVAILABLE: 503, // the database server cannot be reached; nothing was written
  OUTCOME_UNKNOWN: 503, // the connection was lost during a commit
  NOTHING_TO_ERASE: 409, // the item has no former revisions, or all of them are erased already
  REVISION_CURRENT: 409, // the current revision is not erased: change or delete the item first
  REVISION_NEEDED: 409, // the revision replaced or deleted an attachment, which must be erased first
  REVISION_ERASED: 410, // the revision at this height was erased
  SIZE_UNKNOWN: 404, // the log has not reached this size, or never had exactly this size
  TILE_UNKNOWN: 404, // the log does not have this tile, or not yet
  LOG_BEHIND: 503, // the requested blocks could not be signed in time
  LOG_STOPPED: 503, // the signing thread failed, or the node is closing
  LOG_CONTRADICTED: 503, // the stored chain differs from the signed one
  LOG_HEAD_DAMAGED: 500, // the file of the signed head is malformed
  WITNESS_INVALID: 500, // a witness setting without a valid key and address, or too many witnesses
  WITNESS_OF_INVALID: 500, // a setting that is not the verifier key of a log
  WITNESS_REQUEST_INVALID: 400, // not a valid request of C2SP tlog-witness
  WITNESS_LOG_UNKNOWN: 404, // this node does not cosign the log
  WITNESS_SIGNATURE_REFUSED: 403, // the checkpoint is not signed by the key of its log
  WITNESS_PROOF_WRONG: 422, // the proof does not show that the checkpoint continues the last cosigned checkpoint
  WITNESS_STATE_DAMAGED: 500, // the file with the cosigned heads is malformed
  STORE_ROLLED_BACK: 503, // the store lacks blocks that were signed or acknowledged
  FOLDER_KEY_MISSING: 500, // the store exists, but its key is missing, unreadable or malformed
} as const

/** Codes for a database server that is down or failing over. The same request may succeed soon. */
export const STORE_OUTAGES = ['STORE_UNAVAILABLE', 'OUTCOME_UNKNOWN'] as const

export type LedgerErrorCode = keyof typeof statusOfLedger

/** Error of this module. `statusOfLedger` maps `code` to an HTTP status. */
export class LedgerError extends CodedError<LedgerErrorCode> {
  override readonly name = 'LedgerError'
}

/** Returns the error for a change of a network's database, or of its item `id`, that does not come from the network. */
export function ownedByNetwork(db: string, id?: string): LedgerError {
  const changed = id === undefined ? `database ${db}` : `item ${id} of ${db}`
  const message = `${changed} can be changed only through its network`
  return new LedgerError('OWNED_BY_NETWORK', message)
}

/**
 * Returns whether the change may have been recorded although the writer rejected it with `error`. Until this is known,
 * the blobs to which the change refers must not be removed.
 */
export function mayBeRecorded(error: unknown): boolean {
  return error instanceof LedgerError && ['WRITER_STOPPED', 'OUTCOME_UNKNOWN'].includes(error.code)
}
