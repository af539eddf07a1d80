import { CodedError } from '../../base/coded-error.ts'
import { errorMessage, isDiskFull } from '../../base/errors.ts'
import { parseJson } from '../../base/json.ts'
import type { Effect } from './effect.ts'

export type StoreErrorCode =
  | 'FOLDER_IN_USE' // another process has locked the folder
  | 'FOLDER_UNUSABLE' // the folder cannot be created, read or written
  | 'STORE_NOT_FOUND' // the database file is missing
  | 'STORE_FORMAT' // another version of daicho wrote the store, in another format
  | 'STORE_FOREIGN' // the file is not a daicho store, or belongs to another key
  | 'STORE_DAMAGED' // a part of the file is unreadable or wrong; the rest may be fine
  | 'HEAD_MOVED' // the block does not follow the head
  | 'EFFECT_IMPOSSIBLE' // an effect does not apply to the databases
  | 'SEARCH_TOO_LARGE' // too many items to sort without an index, or to count in time
  | 'SEARCH_INTERRUPTED' // the index of the search was removed during the search, or the client has disconnected
  | 'CONTENT_DIFFERS' // the received bytes do not have the expected SHA-256
  | 'STORE_FULL' // the disk is full
  | 'STORE_UNAVAILABLE' // the database server cannot be reached or refuses work now; nothing was written
  | 'OUTCOME_UNKNOWN' // the connection was lost during a commit; the change may or may not be stored
  | 'STORE_ROLLED_BACK' // the database lacks blocks that it has acknowledged
  | 'STORE_UNSAFE' // the settings of the database server can lose acknowledged changes
  | 'STORE_FAILED' // the disk or the engine failed; the outcome of the last append is unknown

/** An error of a store. The message contains the folder, block or item. */
export class StoreError extends CodedError<StoreErrorCode> {
  override readonly name = 'StoreError'
}

export function otherFormat(store: string, found: number, expected: number): StoreError {
  return new StoreError(
    'STORE_FORMAT',
    `${store} has format ${found}, but this daicho uses format ${expected}: ` +
      'export the chain with the daicho that wrote it, and import the chain with this one',
  )
}

export function diskFull(cause: unknown, what = 'the disk is full'): StoreError {
  return new StoreError('STORE_FULL', what, { cause })
}

/** Converts the error of a full disk to STORE_FULL; returns all other errors unchanged. */
export function diskError(error: unknown, what?: string): unknown {
  return isDiskFull(error) ? diskFull(error, what) : error
}

/** Thrown for an effect that does not apply; `position` is the packed position of its entry. */
export class EffectError extends StoreError {
  readonly position: number

  constructor(position: number, message: string, options?: ErrorOptions) {
    super('EFFECT_IMPOSSIBLE', message, options)
    this.position = position
  }
}

export function inapplicable(effect: Effect, cause?: unknown): EffectError {
  const target = 'id' in effect ? `item ${effect.id} of ${effect.db}` : `database ${effect.db}`
  return new EffectError(effect.position, `${effect.kind} does not apply to ${target}`, { cause })
}

/**
 * Thrown by an append that needs a damaged part of the store. `position` is the packed position of the entry that needs
 * this part, or null if the entry is unknown.
 */
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

/** SQLITE_BUSY, SQLITE_NOMEM, SQLITE_FULL; SQLITE_CANTOPEN, when the process has too many open files. */
const OUTAGES = new Set([5, 7, 13, 14])

/** Returns whether a failure of SQLite may pass, and says nothing about the content of the file. */
export function isFileOutage(error: unknown): boolean {
  return OUTAGES.has(sqliteCode(error) & 0xff)
}

/** Returns whether the engine reports an unreadable or malformed file. */
export function isDamage(error: unknown): error is Error {
  return isMalformed(error) || (sqliteCode(error) & 0xff) === SQLITE_IOERR
}

/** Returns whether a change failed because a part of the store is unreadable. A failed write is not damage. */
export function isReadDamage(error: unknown): error is Error {
  if (error instanceof StoreError) return error.code === 'STORE_DAMAGED'
  return error instanceof SyntaxError || isMalformed(error) || READ_FAILURES.has(sqliteCode(error))
}

function isMalformed(error: unknown): error is Error {
  const code = sqliteCode(error) & 0xff
  return code === SQLITE_CORRUPT || code === SQLITE_NOTADB
}

/** Returns the extended result code of SQLite, or 0 for other errors. */
export function sqliteCode(error: unknown): number {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) : 0
}

export function damageText(error: Error): string {
  if (error instanceof StoreError) return error.message
  // The message of a SyntaxError is replaced, because it quotes the text.
  if (error instanceof SyntaxError) return 'a text in the store is not JSON'
  return `the file of the store cannot be read: ${error.message}`
}

/**
 * Converts an error of a read: STORE_DAMAGED for an unreadable part or text that is not JSON,
 * STORE_FAILED for any other failure of the engine. Returns all other errors unchanged.
 */
export function readError(error: unknown): unknown {
  if (error instanceof SyntaxError || isDamage(error)) {
    return new StoreError('STORE_DAMAGED', damageText(error), { cause: error })
  }
  if (sqliteCode(error) === 0) return error
  const reason = errorMessage(error)
  return new StoreError('STORE_FAILED', `the store cannot be read now: ${reason}`, { cause: error })
}

/** Parses a stored text. Errors: STORE_DAMAGED if it is not JSON. */
// biome-ignore lint/suspicious/noExplicitAny: the type of parseJson, which it wraps
export function storedJson(text: string): any {
  try {
    return parseJson(text)
  } catch (error) {
    throw readError(error)
  }
}
