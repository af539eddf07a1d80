/** The whole input cannot be read, for the reason in the message. A single bad record is refused instead. */
export class SourceError extends Error {
  override readonly name = 'SourceError'
}
