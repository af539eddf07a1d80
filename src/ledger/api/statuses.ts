import { statusOfStrictJson } from '../../base/strict-json.ts'
import { statusOfFilter } from '../../filter/index.ts'
import type { LedgerErrorCode } from '../errors.ts'
import { statusOfPeers } from '../peers/errors.ts'

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
