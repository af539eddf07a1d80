/** Returns the message of a thrown value. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Returns the code of an error, such as `ENOENT` of the system, or an empty text if it has none. */
export function errorCode(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}

/** System error codes of a full disk, an exceeded quota and a file that is too large. */
const DISK_FULL = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])
const SQLITE_FULL = 13

/** Returns whether the system or SQLite reports a full disk, as `error` or as a cause of `error`. */
export function isDiskFull(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause) {
    if ('errcode' in each && (Number(each.errcode) & 0xff) === SQLITE_FULL) return true
    if (DISK_FULL.has(errorCode(each))) return true
  }
  return false
}
