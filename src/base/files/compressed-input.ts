import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { errorCode } from '../errors.ts'

const GZIP_MAGIC = Buffer.from([0x1f, 0x8b])
const CHUNK_BYTES = 256 * 1024

/** The start of an input, and the whole input. */
export interface PeekedInput {
  readonly start: Buffer
  readonly chunks: AsyncIterable<Uint8Array>
}

/** Reads `input` until `start` has `bytes` bytes. A pipe may deliver the first byte alone. */
export async function peekInput(
  input: AsyncIterable<Uint8Array>,
  bytes: number,
): Promise<PeekedInput> {
  const iterator = input[Symbol.asyncIterator]()
  const parts: Uint8Array[] = []
  for (let length = 0; length < bytes; ) {
    const next = await iterator.next()
    if (next.done === true) break
    parts.push(next.value)
    length += next.value.length
  }
  async function* all(): AsyncGenerator<Uint8Array> {
    try {
      yield* parts.splice(0)
      for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
        yield next.value
      }
    } finally {
      await iterator.return?.()
    }
  }
  return { start: Buffer.concat(parts), chunks: all() }
}

/**
 * Decompresses `input` if the first bytes are those of gzip. Throws `toError(error)` for damaged compression, and for
 * data after zeros, which end the compressed data for zlib.
 */
export async function* decompressInput(
  input: AsyncIterable<Uint8Array>,
  toError: (error: Error) => Error,
): AsyncGenerator<Uint8Array> {
  const { start, chunks } = await peekInput(input, GZIP_MAGIC.length)
  if (!start.subarray(0, GZIP_MAGIC.length).equals(GZIP_MAGIC)) {
    yield* chunks
    return
  }
  const gunzip = createGunzip({ chunkSize: CHUNK_BYTES })
  const rest = new MeasuredInput(chunks)
  // The error of a failed input is ignored here, because it is also thrown in the loop below.
  pipeline(Readable.from(rest), gunzip).catch(() => {})
  try {
    for await (const chunk of gunzip) yield chunk
    for await (const _ of rest);
    if (rest.end > gunzip.bytesWritten) throw toError(new Error('there are data after zeros'))
  } catch (error) {
    throw error instanceof Error && errorCode(error).startsWith('Z_') ? toError(error) : error
  } finally {
    rest.close()
  }
}

/** Finds the end of an input, without the zeros that may follow. Two readers share it, so only `close` closes it. */
class MeasuredInput implements AsyncIterable<Uint8Array> {
  readonly #input: AsyncIterator<Uint8Array>
  #length = 0
  /** Number of bytes up to the last one that is not zero. */
  end = 0

  constructor(input: AsyncIterable<Uint8Array>) {
    this.#input = input[Symbol.asyncIterator]()
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    return { next: () => this.#next() }
  }

  close(): void {
    this.#input.return?.().catch(() => {})
  }

  async #next(): Promise<IteratorResult<Uint8Array>> {
    const next = await this.#input.next()
    if (next.done === true) return next
    const last = next.value.findLastIndex((byte) => byte !== 0)
    if (last !== -1) this.end = this.#length + last + 1
    this.#length += next.value.length
    return next
  }
}
