import { CodedError } from '../base/coded-error.ts'
import { errorCode, errorMessage, isDiskFull } from '../base/errors.ts'

/** Exit codes of all commands. Scripts of users rely on these codes. */
export const EXIT = {
  success: 0,
  /** The command found a problem in the data, or failed. */
  finding: 1,
  /** The command line is invalid. */
  usage: 2,
  /** The configuration is invalid (EX_CONFIG of sysexits). */
  configuration: 78,
} as const

/** Exit code for each error code. An error with any other code exits with `finding`. */
const EXIT_OF_CODE: Readonly<Record<string, number>> = {
  EXPORT_FOREIGN: EXIT.usage,
  FORMAT_UNSUITABLE: EXIT.usage,
  INDEX_PATH_INVALID: EXIT.usage,
  PASSWORD_UNUSABLE: EXIT.usage,
  PEER_INVALID: EXIT.usage,
  SCHEMA_INVALID: EXIT.usage,
  SCOPE_UNKNOWN: EXIT.usage,
  SCOPES_TOO_LONG: EXIT.usage,
  SIGNATURES_UNSUPPORTED: EXIT.usage,
  STORE_NOT_FOUND: EXIT.usage,
  TOKEN_GRANT_INVALID: EXIT.usage,
  TOKEN_ID_MALFORMED: EXIT.usage,
  URL_INVALID: EXIT.usage,
  USER_NAME_UNUSABLE: EXIT.usage,

  COPY_OVER_STORE: EXIT.configuration,
  EXPORT_TOO_NEW: EXIT.configuration,
  FILE_DAMAGED: EXIT.configuration,
  FILE_UNREADABLE: EXIT.configuration,
  FOLDER_IN_USE: EXIT.configuration,
  FOLDER_KEY_MISSING: EXIT.configuration,
  FOLDER_UNUSABLE: EXIT.configuration,
  IMPORT_OVER_STORE: EXIT.configuration,
  IMPORT_WITHOUT_KEY: EXIT.configuration,
  KEYS_FIXED: EXIT.configuration,
  RESTORE_OVER_STORE: EXIT.configuration,
  RESTORE_WITHOUT_KEY: EXIT.configuration,
  SECRET_TOO_SHORT: EXIT.configuration,
  STORE_FOREIGN: EXIT.configuration,
  STORE_FORMAT: EXIT.configuration,
  STORE_UNAVAILABLE: EXIT.configuration,
  STORE_UNSAFE: EXIT.configuration,
}

/** An error that ends the program with an exit code and prints its message as one line on stderr. */
export class Exit extends Error {
  override readonly name = 'Exit'
  readonly code: number

  constructor(code: number, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** Returns the exit for `error`; null for an unexpected error, which the caller throws so that its stack is printed. */
export function findExit(error: unknown): Exit | null {
  if (error instanceof Exit) return error
  if (!(error instanceof CodedError)) return findSystemExit(error)
  const code = EXIT_OF_CODE[String(error.code)] ?? EXIT.finding
  return new Exit(code, error.message, { cause: error })
}

/** Returns the exit for `error`. Throws an unexpected error. */
export function requireExit(error: unknown): Exit {
  const exit = findExit(error)
  if (exit !== null) return exit
  throw error
}

/** Returns the exit for a failed system call on a file or a socket, or for a full disk; null for other errors. */
export function findSystemExit(error: unknown, code: number = EXIT.finding): Exit | null {
  if (!(error instanceof Error)) return null
  const isFull = isDiskFull(error)
  if (!isFull && (!('syscall' in error) || !('code' in error))) return null
  const message = isFull ? `the disk is full (${error.message})` : error.message
  return new Exit(code, message, { cause: error })
}

/** Returns text for use in a longer message: the system code of `error`, such as EACCES, or else its message. */
export function formatReason(error: unknown): string {
  return errorCode(error) || errorMessage(error)
}
