/**
 * An error that a caller can act on: a code from a closed list, and a message with the values in it.
 *
 * Each wing that refuses extends it once, beside the table that gives its codes an HTTP status
 * (`errors.ts`). What only a defect of ours can cause is an AssertionError instead.
 */
export class CodedError<Code extends string> extends Error {
  /** Which refusal this is; stable, and sent to clients as `code`. */
  readonly code: Code

  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}
