/** Maximum bytes of a line or an array element. Items are smaller, but a CouchDB document includes its attachments. */
export const RECORD_BYTES_MAX = 64 * 1024 * 1024

const LINE_FEED = 0x0a
const CARRIAGE_RETURN = 0x0d

/** The byte that ends the lines of an input. Lines that end with CRLF end with a line feed. */
export type LineEnd = typeof LINE_FEED | typeof CARRIAGE_RETURN

/** A line, or an element of an array. */
export interface Piece {
  /** The line on which the piece begins, from 1. */
  readonly line: number
  /** Null if the piece is longer than RECORD_BYTES_MAX. */
  readonly bytes: Uint8Array | null
}

/** Joins the chunks of one piece, up to `bytesMax`. */
export class PieceBuffer {
  readonly #bytesMax: number
  #parts: Uint8Array[] = []
  #length = 0
  #isTooLong = false

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get isEmpty(): boolean {
    return this.#length === 0 && !this.#isTooLong
  }

  add(part: Uint8Array): void {
    if (part.length === 0 || this.#isTooLong) return
    this.#length += part.length
    this.#isTooLong = this.#length > this.#bytesMax
    if (this.#isTooLong) this.#parts = []
    else this.#parts.push(part)
  }

  /** Returns the piece, or null if the piece is too long. The next `add` starts a new piece. */
  take(): Uint8Array | null {
    const [only] = this.#parts
    const whole = this.#parts.length === 1 && only !== undefined ? only : joinParts(this.#parts)
    const bytes = this.#isTooLong ? null : whole
    this.#parts = []
    this.#length = 0
    this.#isTooLong = false
    return bytes
  }
}

function joinParts(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

/** Returns the line end of an input that starts with `start`. Only old programs of the Macintosh end lines with CR. */
export function findLineEnd(start: Uint8Array): LineEnd {
  const isOld = start.includes(CARRIAGE_RETURN) && !start.includes(LINE_FEED)
  return isOld ? CARRIAGE_RETURN : LINE_FEED
}

/** Splits `chunks` at `lineEnd`, and yields the lines of each chunk. Before a line feed, a carriage return stays. */
export async function* splitLines(
  chunks: AsyncIterable<Uint8Array>,
  lineEnd: LineEnd = LINE_FEED,
  bytesMax: number = RECORD_BYTES_MAX,
): AsyncGenerator<Piece[]> {
  const open = new PieceBuffer(bytesMax)
  let line = 1
  for await (const chunk of chunks) {
    const lines: Piece[] = []
    let start = 0
    for (let end = chunk.indexOf(lineEnd); end !== -1; end = chunk.indexOf(lineEnd, start)) {
      open.add(chunk.subarray(start, end))
      lines.push({ line, bytes: open.take() })
      start = end + 1
      line += 1
    }
    open.add(chunk.subarray(start))
    if (lines.length > 0) yield lines
  }
  if (!open.isEmpty) yield [{ line, bytes: open.take() }]
}

export function withoutReturn(bytes: Uint8Array): Uint8Array {
  return bytes.at(-1) === CARRIAGE_RETURN ? bytes.subarray(0, -1) : bytes
}

/** Returns the encoding of a text in UTF-16, which has a byte order mark or starts with an ASCII character, or null. */
export function findUtf16([first, second]: Uint8Array): string | null {
  if ((first === 0xff && second === 0xfe) || (first !== 0 && second === 0)) return 'utf-16le'
  return (first === 0xfe && second === 0xff) || (first === 0 && second !== 0) ? 'utf-16be' : null
}
