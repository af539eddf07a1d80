/** The input cannot be read at all, for the reason in the message. For a single invalid record: `RecordRefusal`. */
export class SourceError extends Error {
  override readonly name = 'SourceError'
}
