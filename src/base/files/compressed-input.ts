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

/** Decompresses `input` if the first bytes are those of gzip. Throws `toError(error)` for damaged compression. */
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
  // The error of a failed input is ignored here, because it is also thrown in the loop below.
  pipeline(Readable.from(chunks), gunzip).catch(() => {})
  try {
    for await (const chunk of gunzip) yield chunk
  } catch (error) {
    throw error instanceof Error && errorCode(error).startsWith('Z_') ? toError(error) : error
  }
}
