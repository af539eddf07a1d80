import { pipeline, Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { damagedExport } from './errors.ts'

/** The longest line, bytes: a block of the most text that one may have, with room for its proof. */
const LINE_BYTES_MAX = 256 * 1024 * 1024
const LINE_BREAK = 0x0a
const GZIP_MAGIC = Buffer.from([0x1f, 0x8b])

/** Lines that arrived together, whole and without their breaks. */
export interface LineBatch {
  readonly lines: readonly string[]
  /** The number of the first, from 1. */
  readonly first: number
}

/**
 * The lines of `chunks`, which may be compressed by gzip: that is seen from the first bytes.
 * Errors: EXPORT_DAMAGED for a line that is too long or has no end, and for damaged compression.
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<LineBatch> {
  let rest: Uint8Array[] = []
  let restBytes = 0
  let first = 1
  const found = (what: string, cause?: unknown) =>
    damagedExport({ line: first, height: null, index: null, what }, cause)
  try {
    for await (const chunk of unpacked(chunks)) {
      const end = chunk.lastIndexOf(LINE_BREAK)
      restBytes += chunk.length
      if (end === -1) {
        rest.push(chunk)
        if (restBytes > LINE_BYTES_MAX) throw found(`it is longer than ${LINE_BYTES_MAX} bytes`)
        continue
      }
      const lines = Buffer.concat([...rest, chunk.subarray(0, end)])
        .toString()
        .split('\n')
      rest = [chunk.subarray(end + 1)]
      restBytes = chunk.length - end - 1
      yield { lines, first }
      first += lines.length
    }
  } catch (error) {
    if (!isZlibError(error)) throw error
    throw found(`the compressed data are damaged: ${error.message}`, error)
  }
  if (restBytes > 0) throw found('it is cut short')
}

/** The bytes as they were before gzip, or as they are. */
async function* unpacked(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const source = chunks[Symbol.asyncIterator]()
  // A pipe may bring the first byte alone.
  const opening: Uint8Array[] = []
  let bytes = 0
  while (bytes < GZIP_MAGIC.length) {
    const { done, value } = await source.next()
    if (done === true) break
    opening.push(value)
    bytes += value.length
  }
  async function* all(): AsyncGenerator<Uint8Array> {
    yield* opening
    yield* { [Symbol.asyncIterator]: () => source }
  }
  const packed = Buffer.concat(opening).subarray(0, GZIP_MAGIC.length).equals(GZIP_MAGIC)
  if (!packed) yield* all()
  else yield* gunzipped(all())
}

async function* gunzipped(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const gunzip = createGunzip({ chunkSize: 256 * 1024 })
  pipeline(Readable.from(chunks), gunzip, () => {})
  yield* gunzip
}

function isZlibError(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && /^Z_/.test(String(error.code))
}
