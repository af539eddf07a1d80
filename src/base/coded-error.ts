/**
 * An error that a caller can act on: a code from a closed list, and a message with the values.
 *
 * Each module with such errors extends it once (`errors.ts`). What only a defect can cause is an
 * AssertionError instead.
 */
export class CodedError<Code extends string> extends Error {
  /** Stable, and sent to clients as `code`. */
  readonly code: Code

  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}
