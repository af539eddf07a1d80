import { CodedError } from '../base/coded-error.ts'

/** Every way a store refuses. */
export type StoreErrorCode =
  | 'FOLDER_IN_USE' // another process holds the folder
  | 'FOLDER_UNUSABLE' // it cannot be made, read or written
  | 'STORE_NOT_FOUND' // no database file where one must be
  | 'STORE_TOO_NEW' // a newer daicho wrote it
  | 'STORE_TOO_OLD' // an older daicho wrote it, and it is only read here
  | 'STORE_FOREIGN' // the file is not a daicho store, or belongs to another key
  | 'STORE_DAMAGED' // a part of the file cannot be read, or does not hold what it must; the rest may be fine
  | 'HEAD_MOVED' // the block does not follow the head
  | 'EFFECT_IMPOSSIBLE' // an effect does not fit the databases as they are
  | 'SEARCH_TOO_LARGE' // more to sort than is sorted without an index
  | 'SEARCH_INTERRUPTED' // what the search went by was taken away meanwhile
  | 'CONTENT_DIFFERS' // the bytes are not those that the SHA-256 names
  | 'STORE_FULL' // no room on the disk
  | 'STORE_FAILED' // the disk or the engine failed; nothing is known of the last append

/** Thrown by stores and by what opens them; the message names the folder, block or item. */
export class StoreError extends CodedError<StoreErrorCode> {
  override readonly name = 'StoreError'
}

/** An effect that does not fit; `position` is its entry's, packed. */
export class EffectError extends StoreError {
  readonly position: number

  constructor(position: number, message: string, options?: ErrorOptions) {
    super('EFFECT_IMPOSSIBLE', message, options)
    this.position = position
  }
}

/** Codes of the system for no room: the disk, a quota, the largest file. */
const NO_ROOM = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])
const SQLITE_FULL = 13

/** Whether the system or the engine reports that there is no room. */
export function isNoRoom(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if ('errcode' in error) return (Number(error.errcode) & 0xff) === SQLITE_FULL
  return 'code' in error && NO_ROOM.has(String(error.code))
}

/** STORE_DAMAGED of an append; `position` is that of the entry that needs the part, packed, if known. */
export class DamageError extends StoreError {
  readonly position: number | null

  constructor(position: number | null, message: string, options?: ErrorOptions) {
    super('STORE_DAMAGED', message, options)
    this.position = position
  }
}

const SQLITE_IOERR = 10
const SQLITE_CORRUPT = 11
const SQLITE_NOTADB = 26
/** SQLITE_IOERR_READ, SQLITE_IOERR_SHORT_READ, SQLITE_IOERR_DATA, SQLITE_IOERR_CORRUPTFS. */
const READ_FAILURES = new Set([266, 522, 8202, 8458])

/** Whether `error` is the engine's and says that the file cannot be read or is malformed. */
export function isDamage(error: unknown): error is Error {
  return isMalformed(error) || (codeOf(error) & 0xff) === SQLITE_IOERR
}

/** Whether a change met a part of the store that cannot be read; a write that failed is not damage. */
export function isReadDamage(error: unknown): error is Error {
  if (error instanceof StoreError) return error.code === 'STORE_DAMAGED'
  return error instanceof SyntaxError || isMalformed(error) || READ_FAILURES.has(codeOf(error))
}

function isMalformed(error: unknown): error is Error {
  const code = codeOf(error) & 0xff
  return code === SQLITE_CORRUPT || code === SQLITE_NOTADB
}

/** The engine's extended result code; 0 for errors of anything else. */
function codeOf(error: unknown): number {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) : 0
}

/** The message about a part of the store that could not be read because of `error`. */
export function damageText(error: Error): string {
  if (error instanceof StoreError) return error.message
  // The message of a SyntaxError quotes the text.
  if (error instanceof SyntaxError) return 'a text in the store is not JSON'
  return `the file of the store cannot be read: ${error.message}`
}

/**
 * The error that a failed read of stored data is reported with: STORE_DAMAGED for a part that cannot
 * be read, or text in it that is not JSON; STORE_FAILED for any other failure of the engine.
 * Errors that are coded already, and defects, stay as they are.
 */
export function readError(error: unknown): unknown {
  if (error instanceof SyntaxError || isDamage(error)) {
    return new StoreError('STORE_DAMAGED', damageText(error), { cause: error })
  }
  if (codeOf(error) === 0) return error
  const reason = error instanceof Error ? error.message : String(error)
  return new StoreError('STORE_FAILED', `the store cannot be read now: ${reason}`, { cause: error })
}
