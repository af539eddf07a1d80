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
