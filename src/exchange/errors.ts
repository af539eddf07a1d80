/** The input cannot be read at all, for the reason in the message. For a single invalid record: `RecordRefusal`. */
export class InputError extends Error {
  override readonly name: string = 'InputError'
}

/** The input has a format that must be chosen by the caller. */
export class FormatError extends InputError {
  override readonly name = 'FormatError'
}
