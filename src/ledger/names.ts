import { LedgerError } from './errors.ts'

/** Longest database name, bytes of UTF-8. */
const DATABASE_NAME_BYTES_MAX = 128
/** Longest item id, bytes of UTF-8. */
const ITEM_ID_BYTES_MAX = 256

/** `config` and `ledgers` by the specification; the others would hide a path of the service. */
const RESERVED = new Set(['config', 'ledgers', 'dbs', 'serverid'])

/** What a path segment cannot carry, or what a terminal should not be sent. */
const UNSAFE = /[\u0000-\u001f\u007f-\u009f/\ud800-\udfff]/

/**
 * Whether `name` can be a database's: 1..128 bytes of UTF-8 without control characters and `/`, not
 * `.` or `..`, not reserved. Errors: DATABASE_NAME_INVALID, DATABASE_NAME_RESERVED.
 * Source: specification, “Database”; docs/decisions/0002-methods.md.
 */
export function checkDatabaseName(name: string): void {
  if (!isPathPart(name, DATABASE_NAME_BYTES_MAX)) {
    throw new LedgerError(
      'DATABASE_NAME_INVALID',
      `a database name has 1 to ${DATABASE_NAME_BYTES_MAX} bytes and no control character or slash`,
    )
  }
  if (RESERVED.has(name)) {
    throw new LedgerError('DATABASE_NAME_RESERVED', `no database can be called ${name}`)
  }
}

/** Whether `id` can be an item's; as for databases, with 256 bytes. Errors: ITEM_ID_INVALID. */
export function checkItemId(id: string): void {
  if (isPathPart(id, ITEM_ID_BYTES_MAX)) return
  throw new LedgerError(
    'ITEM_ID_INVALID',
    `an item id has 1 to ${ITEM_ID_BYTES_MAX} bytes and no control character or slash`,
  )
}

/** Whether `name` can be an attachment's; as for items. Errors: ATTACHMENT_NAME_INVALID. */
export function checkAttachmentName(name: string): void {
  if (isPathPart(name, ITEM_ID_BYTES_MAX)) return
  throw new LedgerError(
    'ATTACHMENT_NAME_INVALID',
    `the name of an attachment has 1 to ${ITEM_ID_BYTES_MAX} bytes and no control character or slash`,
  )
}

function isPathPart(text: string, bytesMax: number): boolean {
  if (text === '' || text === '.' || text === '..') return false
  // A UTF-16 unit is at most three bytes of UTF-8: most names need no counting.
  if (text.length * 3 > bytesMax && Buffer.byteLength(text) > bytesMax) return false
  return !UNSAFE.test(text) || (text.isWellFormed() && !/[\u0000-\u001f\u007f-\u009f/]/.test(text))
}
