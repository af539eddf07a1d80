import { CodedError } from '../base/coded-error.ts'

/** How the program ends; scripts rely on these. */
export const EXIT = {
  /** All is well. */
  right: 0,
  /** Something was found, or it failed. */
  finding: 1,
  /** The command was not understood. */
  usage: 2,
  /** The configuration does not allow it (EX_CONFIG of sysexits). */
  configuration: 78,
} as const

/** Ends the program with one line on stderr and an exit code; thrown by commands, caught in `main`. */
export class Exit extends Error {
  override readonly name = 'Exit'
  readonly code: number

  constructor(code: number, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** How the program ends when something was refused that no command has an answer of its own for. */
export function exitOfRefusal(error: unknown): Exit | null {
  if (!(error instanceof CodedError)) return null
  return new Exit(EXIT.finding, error.message, { cause: error })
}

const NO_ROOM = new Set(['ENOSPC', 'EDQUOT'])

/**
 * How the program ends when the system refuses it a file or a socket, with `code`; null for errors of
 * any other kind, which are defects and keep their stack.
 */
export function exitOfSystem(error: unknown, code: number = EXIT.finding): Exit | null {
  if (!(error instanceof Error) || !('syscall' in error) || !('code' in error)) return null
  const full = NO_ROOM.has(String(error.code))
  const message = full ? `there is no room left on the disk (${error.message})` : error.message
  return new Exit(code, message, { cause: error })
}
