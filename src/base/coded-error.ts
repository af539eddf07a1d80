/**
 * An error that a caller can handle: a code from a closed list, and a message with the values. Each module extends
 * it once (`errors.ts`). Errors that only a bug can cause are AssertionErrors instead.
 */
export class CodedError<Code extends string> extends Error {
  /** Stable, and sent to clients as `code`. */
  readonly code: Code

  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}
