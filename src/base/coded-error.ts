/**
 * An error that a caller can handle. The code is from a closed list, and the message contains the values concerned.
 * Modules define subclasses with their own codes. An error that only a bug can cause is an AssertionError instead.
 */
export class CodedError<Code extends string> extends Error {
  /** Stable identifier of the kind of error, sent to clients as `code`. */
  readonly code: Code

  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** Waits for `request`. Returns false if it fails with `code`, which means that nothing was left to do. */
export async function unlessCode(code: string, request: Promise<unknown>): Promise<boolean> {
  try {
    await request
    return true
  } catch (error) {
    if (error instanceof CodedError && error.code === code) return false
    throw error
  }
}
