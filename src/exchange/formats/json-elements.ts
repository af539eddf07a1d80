import { SourceError } from '../errors.ts'
import { type Piece, PieceBuffer, RECORD_BYTES_MAX } from './lines.ts'

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const LINE_FEED = 0x0a
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/** Maximum bytes of a member name that are kept for the comparison. The names in `members` are shorter. */
const NAME_BYTES_MAX = 64

/**
 * Yields the elements of a JSON array, page by page. The input is the array itself or, with `members`, an object. The
 * array of an object is the first member that has one of the names in `members` and whose value is an array.
 *
 * The elements are not parsed here, so an invalid element does not affect other elements if its brackets and quotes
 * match.
 *
 * Errors: SourceError if the array is missing, is not closed, or is followed by more text.
 */
export async function* elementsOf(
  chunks: AsyncIterable<Uint8Array>,
  members: readonly string[] = [],
  bytesMax: number = RECORD_BYTES_MAX,
): AsyncGenerator<Piece[]> {
  const scanner = new Scanner(members, bytesMax)
  for await (const chunk of chunks) {
    const pieces = scanner.scan(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength))
    if (pieces.length > 0) yield pieces
  }
  scanner.end()
}

class Scanner {
  readonly #members: readonly string[]
  readonly #element: PieceBuffer
  #line = 1
  #depth = 0
  /** Depth of the elements, or null before the array. */
  #elementDepth: number | null = null
  #isDone = false
  #inString = false
  #isEscaped = false
  /** Line of the first byte of the current element, or null before that byte. */
  #startLine: number | null = null
  #elements = 0
  /** The last string at depth 1, which is a member name if a colon follows. */
  #name: number[] = []

  constructor(members: readonly string[], bytesMax: number) {
    this.#members = members
    this.#element = new PieceBuffer(bytesMax)
  }

  scan(chunk: Buffer): Piece[] {
    const pieces: Piece[] = []
    // Start of the bytes of the current element in this chunk.
    let from = 0
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at] ?? 0
      if (byte === LINE_FEED) this.#line += 1
      if (this.#isSpace(byte)) continue
      if (this.#elementDepth === null || this.#isDone) {
        this.#outside(byte)
        if (this.#elementDepth === this.#depth && !this.#isDone) from = at + 1
        continue
      }
      const isEnd =
        !this.#inString &&
        this.#depth === this.#elementDepth &&
        (byte === COMMA || byte === CLOSE_ARRAY)
      if (!isEnd) {
        if (this.#startLine === null) {
          this.#startLine = this.#line
          from = at
        }
        this.#step(byte)
        continue
      }
      const isEmptyArray = byte === CLOSE_ARRAY && this.#elements === 0 && this.#startLine === null
      if (!isEmptyArray) {
        if (this.#startLine !== null) this.#element.add(chunk.subarray(from, at))
        pieces.push({ line: this.#startLine ?? this.#line, bytes: this.#element.take() })
        this.#elements += 1
      }
      this.#startLine = null
      from = at + 1
      if (byte === CLOSE_ARRAY) {
        this.#depth -= 1
        this.#isDone = true
      }
    }
    if (this.#startLine !== null) this.#element.add(chunk.subarray(from))
    return pieces
  }

  /** Must be called at the end of the input. Throws SourceError if the array has not ended. */
  end(): void {
    if (this.#elementDepth === null) throw this.#noArray()
    if (!this.#isDone || this.#depth > 0) {
      throw new SourceError(`the input ends at line ${this.#line}, inside its array`)
    }
  }

  #isSpace(byte: number): boolean {
    return byte <= 0x20 && !this.#inString && this.#startLine === null
  }

  /** Processes a byte before or after the array. */
  #outside(byte: number): void {
    if (this.#depth === 0) {
      const isObject = byte === OPEN_OBJECT && this.#members.length > 0
      if (this.#isDone || (byte !== OPEN_ARRAY && !isObject)) {
        if (!this.#isDone) throw this.#noArray()
        throw new SourceError(`line ${this.#line}: there is more text after the end of the array`)
      }
      this.#depth = 1
      if (!isObject) this.#elementDepth = 1
      return
    }
    if (this.#depth === 1 && !this.#inString && byte === OPEN_ARRAY && !this.#isDone) {
      if (this.#members.includes(Buffer.from(this.#name).toString())) this.#elementDepth = 2
    }
    if (this.#depth === 1 && !this.#inString && byte === QUOTE) this.#name = []
    else if (this.#depth === 1 && this.#inString && byte !== QUOTE) {
      if (this.#name.length <= NAME_BYTES_MAX) this.#name.push(byte)
    }
    this.#step(byte)
  }

  /** Updates the depth and the string state. */
  #step(byte: number): void {
    if (this.#inString) {
      if (this.#isEscaped) this.#isEscaped = false
      else if (byte === BACKSLASH) this.#isEscaped = true
      else if (byte === QUOTE) this.#inString = false
    } else if (byte === QUOTE) this.#inString = true
    else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) this.#depth += 1
    else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) this.#depth -= 1
  }

  #noArray(): SourceError {
    const names = this.#members.map((name) => `"${name}"`).join(' or ')
    const wanted =
      names === '' ? 'a JSON array' : `a JSON array, or an object with an array ${names}`
    return new SourceError(`line ${this.#line}: the input is not ${wanted}`)
  }
}
