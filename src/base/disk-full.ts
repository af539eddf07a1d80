/** System error codes of a full disk, an exceeded quota and a file that is too large. */
const SYSTEM_CODES = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])
const SQLITE_FULL = 13

/** Returns whether the system or SQLite reports a full disk, as `error` or as a cause of `error`. */
export function isDiskFull(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause) {
    if ('errcode' in each && (Number(each.errcode) & 0xff) === SQLITE_FULL) return true
    if ('code' in each && SYSTEM_CODES.has(String(each.code))) return true
  }
  return false
}
