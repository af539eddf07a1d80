import { CodedError } from '../base/coded-error.ts'

/** Every way a store refuses. */
export type StoreErrorCode =
  | 'FOLDER_IN_USE' // another process holds the folder
  | 'FOLDER_UNUSABLE' // it cannot be made, read or written
  | 'STORE_NOT_FOUND' // no database file where one must be
  | 'STORE_TOO_NEW' // a newer daicho wrote it
  | 'STORE_TOO_OLD' // an older daicho wrote it, and it is only read here
  | 'STORE_FOREIGN' // the file is not a daicho store, or belongs to another key
  | 'STORE_DAMAGED' // the file, or a row in it, cannot be read as what it must be
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

const DAMAGE = new Set([10, 11, 26]) // SQLITE_IOERR, SQLITE_CORRUPT, SQLITE_NOTADB

/** Whether it is the engine that says so of its file: it cannot be read, or is not what it must be. */
export function isDamage(error: unknown): error is Error {
  if (!(error instanceof Error) || !('errcode' in error)) return false
  return DAMAGE.has(Number(error.errcode) & 0xff)
}
