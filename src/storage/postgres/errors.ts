import pg from 'pg'
import { errorMessage } from '../../base/errors.ts'
import { damageText, StoreError, type StoreErrorCode } from '../port/errors.ts'

/** Thrown if a connection ended, could not be made, or did not answer in time. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost'
}

// SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html

/** Codes and classes of temporary failures, after which another attempt may succeed. */
const TRANSIENT = [
  '08000', // connection exceptions, except 08P01, which indicates a defect
  '08001',
  '08003',
  '08006',
  '25006', // the server has become a standby
  '25P03', // the transaction was idle for too long
  '25P04', // the transaction took too long
  '40001', // serialization failure
  '40P01', // deadlock
  '53000', // insufficient resources
  '53200', // out of memory
  '53300', // too many connections
  '55P03', // lock timeout
  '57014', // an administrator has cancelled the statement
  '57P0', // shutdown, crash, starting up
]
/** Wrong user or password, missing database, missing privilege. An administrator can correct them while a node runs. */
const REFUSED = ['28', '3D000', '42501']
const DAMAGED = ['XX001', 'XX002', '58030']
/** Unique violation, text with a NUL character, value too long for an index. */
const IMPOSSIBLE = ['23', '22021', '54000']
const DISK_FULL = ['53100']

function hasCode(error: unknown, codes: readonly string[]): boolean {
  const code = error instanceof pg.DatabaseError ? (error.code ?? '') : ''
  return codes.some((each) => code.startsWith(each))
}

/** Returns whether another attempt may soon succeed. */
export function isTransient(error: unknown): boolean {
  return error instanceof ConnectionLost || hasCode(error, TRANSIENT)
}

/**
 * Returns whether the server rejected a statement, so that its transaction was certainly not committed. Returns false
 * for a fatal error, which ends the connection and leaves the outcome unknown.
 */
export function isRefusal(error: unknown): boolean {
  return error instanceof pg.DatabaseError && !hasCode(error, ['57P', '08'])
}

/** Returns whether a row cannot be stored, for example because it exists already. */
export function isConstraint(error: unknown): boolean {
  return hasCode(error, IMPOSSIBLE)
}

/**
 * Returns whether the error reports that a table exists already, or is being created. PostgreSQL creates a type and
 * then the table, so if two connections create a table at once, it may report the type (42710) or its row (23505).
 */
export function isDuplicateTable(error: unknown): boolean {
  return hasCode(error, ['42P07', '42710', '23505'])
}

/** Returns whether the wait for a lock took longer than LOCK_MS_MAX. */
export function isLockTimeout(error: unknown): boolean {
  return hasCode(error, ['55P03'])
}

/** Returns whether a statement was refused because an earlier statement of its transaction failed. */
export function isAfterFailure(error: unknown): boolean {
  return hasCode(error, ['25P02'])
}

/** Returns whether the error reports that a table does not exist. */
export function isMissingTable(error: unknown): boolean {
  return hasCode(error, ['42P01'])
}

export function innerMessage(error: unknown): string {
  // Node combines the failures of a host's addresses, and leaves the message empty.
  if (error instanceof AggregateError && error.errors.length > 0)
    return innerMessage(error.errors[0])
  return errorMessage(error)
}

/** Converts an error of the driver or the server; returns all other errors unchanged. */
export function toStoreError(error: unknown): unknown {
  if (error instanceof StoreError || !(error instanceof Error)) return error
  if (error instanceof SyntaxError) {
    return new StoreError('STORE_DAMAGED', damageText(error), { cause: error })
  }
  const convert = (code: StoreErrorCode, message: string) =>
    new StoreError(code, `${message}: ${error.message}`, { cause: error })
  if (error instanceof ConnectionLost) {
    return convert('STORE_UNAVAILABLE', 'the database cannot be reached')
  }
  if (!(error instanceof pg.DatabaseError)) return error
  if (isTransient(error)) return convert('STORE_UNAVAILABLE', 'the database cannot be used now')
  if (hasCode(error, REFUSED)) return convert('STORE_UNAVAILABLE', 'the database refuses access')
  if (hasCode(error, DISK_FULL)) return convert('STORE_FULL', 'the disk of the database is full')
  if (hasCode(error, DAMAGED)) return convert('STORE_DAMAGED', 'the database cannot be read')
  if (hasCode(error, IMPOSSIBLE)) return convert('EFFECT_IMPOSSIBLE', 'an effect does not apply')
  return convert('STORE_FAILED', 'the database failed')
}
