/** The input as a whole cannot be read; the message says why. Single records are refused instead. */
export class SourceError extends Error {
  override readonly name = 'SourceError'
}
