/** The input cannot be read at all, for the reason in the message. For a single invalid record: `RecordRefusal`. */
export class SourceError extends Error {
  override readonly name: string = 'SourceError'
}

/** The input has a format that must be chosen by the caller. */
export class FormatError extends SourceError {
  override readonly name = 'FormatError'
}
