import { isPathPart } from '../../base/path-part.ts'
import { LedgerError, type LedgerErrorCode } from '../errors.ts'

/** Maximum bytes of UTF-8 of a database name. */
const DATABASE_NAME_BYTES_MAX = 128
/** Maximum bytes of UTF-8 of an item id or an attachment name. */
export const ITEM_ID_BYTES_MAX = 256

/** Reserved names: the specification reserves `config` and `ledgers`; `dbs` and `serverid` are paths of the API. */
const RESERVED = new Set(['config', 'ledgers', 'dbs', 'serverid'])

/**
 * Checks a database name: 1 to 128 bytes of UTF-8 without control characters and `/`, not `.` or `..`,
 * not reserved. Errors: DATABASE_NAME_INVALID, DATABASE_NAME_RESERVED.
 * Source: specification, “Database”.
 */
export function requireDatabaseName(name: string): void {
  if (!isPathPart(name, DATABASE_NAME_BYTES_MAX)) {
    throw invalid('DATABASE_NAME_INVALID', 'a database name', DATABASE_NAME_BYTES_MAX)
  }
  if (RESERVED.has(name)) {
    throw new LedgerError('DATABASE_NAME_RESERVED', `the database name ${name} is reserved`)
  }
}

/** Checks an item id: like a database name, but up to 256 bytes, and no id is reserved. Errors: ITEM_ID_INVALID. */
export function requireItemId(id: string): void {
  if (isPathPart(id, ITEM_ID_BYTES_MAX)) return
  throw invalid('ITEM_ID_INVALID', 'an item id', ITEM_ID_BYTES_MAX)
}

/** Checks an attachment name by the rules of an item id. Errors: ATTACHMENT_NAME_INVALID. */
export function requireAttachmentName(name: string): void {
  if (isPathPart(name, ITEM_ID_BYTES_MAX)) return
  throw invalid('ATTACHMENT_NAME_INVALID', 'the name of an attachment', ITEM_ID_BYTES_MAX)
}

/** Type of the resource that records a business network. */
export const NETWORK_TYPE = 'org.hyperledger.composer.system.Network'

/** Returns the id of the item that records the network of database `db`. Only this network may change the database. */
export function networkItemId(db: string): string {
  return `${NETWORK_TYPE}#${db}`
}

function invalid(code: LedgerErrorCode, subject: string, bytesMax: number): LedgerError {
  return new LedgerError(
    code,
    `${subject} must have 1 to ${bytesMax} bytes and no control character or slash`,
  )
}
