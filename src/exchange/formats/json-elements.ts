import { InputError } from '../errors.ts'
import { type Piece, PieceBuffer, RECORD_BYTES_MAX } from './lines.ts'

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const LINE_FEED = 0x0a
/** Bytes up to this one are ignored between elements. */
const SPACE = 0x20
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/** Maximum bytes of a member name that are compared. The names in `members` are shorter. */
const NAME_BYTES_MAX = 64

/**
 * Yields the elements of a JSON array, page by page. The input is the array itself or, with `members`, an object. The
 * array of an object is the member that has one of the names in `members` and whose value is an array.
 *
 * The elements are not parsed here, so an invalid element does not affect other elements if its brackets and quotes
 * match.
 *
 * Errors: InputError if the array is missing, is not closed, or is followed by more text or by a second such member.
 */
export async function* splitElements(
  chunks: AsyncIterable<Uint8Array>,
  members: readonly string[] = [],
  bytesMax: number = RECORD_BYTES_MAX,
): AsyncGenerator<Piece[]> {
  const scanner = new Scanner(members, bytesMax)
  for await (const chunk of chunks) {
    const pieces = scanner.scan(chunk)
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
  /** The last string at depth 1 outside the array, which is a member name if a colon follows. */
  #name: number[] = []

  constructor(members: readonly string[], bytesMax: number) {
    this.#members = members
    this.#element = new PieceBuffer(bytesMax)
  }

  scan(chunk: Uint8Array): Piece[] {
    const pieces: Piece[] = []
    // Start of the bytes of the current element in this chunk.
    let from = 0
    for (let at = 0; at < chunk.length; at += 1) {
      const byte = chunk[at] ?? 0
      if (byte === LINE_FEED) this.#line += 1
      if (this.#inString) this.#stepInString(byte)
      else if (byte <= SPACE) continue
      else if (this.#elementDepth === null || this.#isDone) this.#stepOutside(byte)
      else if (this.#depth !== this.#elementDepth || (byte !== COMMA && byte !== CLOSE_ARRAY)) {
        if (this.#startLine === null) from = at
        this.#startLine ??= this.#line
        this.#step(byte)
      } else {
        const isEmpty = this.#startLine === null
        if (!isEmpty) this.#element.add(chunk.subarray(from, at))
        if (byte === COMMA || !isEmpty || this.#elements > 0) {
          pieces.push({ line: this.#startLine ?? this.#line, bytes: this.#element.take() })
          this.#elements += 1
        }
        this.#startLine = null
        this.#isDone = byte === CLOSE_ARRAY
        if (this.#isDone) this.#depth -= 1
      }
    }
    if (this.#startLine !== null) this.#element.add(chunk.subarray(from))
    return pieces
  }

  /** Must be called at the end of the input. Throws InputError if the array has not ended. */
  end(): void {
    if (this.#elementDepth === null) throw this.#noArray()
    if (!this.#isDone || this.#depth > 0) {
      throw new InputError(`the input ends at line ${this.#line}, inside its array`)
    }
  }

  /** Processes a byte before or after the array. */
  #stepOutside(byte: number): void {
    const opensArray =
      byte === OPEN_ARRAY &&
      (this.#depth === 0 ||
        (this.#depth === 1 && this.#members.includes(String.fromCharCode(...this.#name))))
    if (this.#depth === 0) {
      if (this.#isDone) {
        throw new InputError(`line ${this.#line}: there is more text after the end of the array`)
      }
      const opensObject = byte === OPEN_OBJECT && this.#members.length > 0
      if (!opensArray && !opensObject) throw this.#noArray()
    }
    if (opensArray && this.#isDone) {
      const name = String.fromCharCode(...this.#name)
      const reason = `the object has a second array, "${name}", which is not read`
      throw new InputError(`line ${this.#line}: ${reason}; put each array into its own file`)
    }
    this.#step(byte)
    if (opensArray) this.#elementDepth = this.#depth
  }

  /** Updates the depth at a byte outside strings. */
  #step(byte: number): void {
    if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) this.#depth += 1
    else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) this.#depth -= 1
    else if (byte === QUOTE) {
      this.#inString = true
      this.#name = []
    }
  }

  #stepInString(byte: number): void {
    if (this.#isEscaped) this.#isEscaped = false
    else if (byte === BACKSLASH) this.#isEscaped = true
    else if (byte === QUOTE) this.#inString = false
    const isOutside = this.#elementDepth === null || this.#isDone
    const isName = isOutside && this.#depth === 1 && this.#inString
    if (isName && this.#name.length <= NAME_BYTES_MAX) this.#name.push(byte)
  }

  #noArray(): InputError {
    const names = this.#members.map((name) => `"${name}"`).join(' or ')
    const wanted =
      names === '' ? 'a JSON array' : `a JSON array, or an object with an array ${names}`
    return new InputError(`line ${this.#line}: the input is not ${wanted}`)
  }
}
