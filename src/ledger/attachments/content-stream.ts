import type { FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { ByteRange } from './ranges.ts'

/** Read from the file at a time. */
const CHUNK_BYTES = 128 * 1024

/** A text between parts, or a part of the file. */
export type Piece = string | ByteRange

/**
 * Sends pieces of a file and texts between them, as fast as they are taken, and closes the file when
 * it ends, for whatever reason.
 */
export class ContentStream extends Readable {
  readonly #file: FileHandle
  readonly #pieces: Piece[]

  constructor(file: FileHandle, pieces: readonly Piece[]) {
    super({ highWaterMark: CHUNK_BYTES })
    this.#file = file
    this.#pieces = [...pieces]
  }

  override _read(): void {
    const piece = this.#pieces.shift()
    if (piece === undefined) this.push(null)
    else if (typeof piece === 'string') this.push(piece)
    else {
      this.#readFile(piece).then(
        (bytes) => this.push(bytes),
        (error: Error) => this.destroy(error),
      )
    }
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#file.close().then(
      () => done(error),
      (failure: Error) => done(error ?? failure),
    )
  }

  async #readFile({ start, end }: ByteRange): Promise<Buffer> {
    const bytes = Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, end - start + 1))
    const { bytesRead } = await this.#file.read(bytes, 0, bytes.length, start)
    if (bytesRead === 0) throw new Error('the file of a content has become shorter')
    if (start + bytesRead <= end) this.#pieces.unshift({ start: start + bytesRead, end })
    return bytes.subarray(0, bytesRead)
  }
}
