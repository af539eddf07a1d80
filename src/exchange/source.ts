import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import type { JsonObject } from '../base/json.ts'
import { FormatError, SourceError } from './errors.ts'
import { couchdbRecords } from './formats/couchdb.ts'
import { type ColumnType, csvRecords } from './formats/csv.ts'
import type { IdMember } from './formats/identity.ts'
import { arrayRecords, ndjsonRecords } from './formats/json-records.ts'
import { withoutByteOrderMark } from './formats/lines.ts'
import { plainObject } from './formats/mongodb.ts'
import { itemRecord, type Pages } from './formats/record.ts'

export const SOURCE_FORMATS = ['ndjson', 'json', 'csv', 'couchdb', 'mongodb', 'qldb'] as const
export type SourceFormat = (typeof SOURCE_FORMATS)[number]

export interface SourceOptions {
  /**
   * The format; null for NDJSON or a JSON array, depending on the first character of the input. With null, a reply of
   * CouchDB is rejected, because as NDJSON it would be one wrong item.
   */
  readonly format: SourceFormat | null
  /** Types of CSV columns, which take precedence over types in the header. */
  readonly columnTypes?: ReadonlyMap<string, ColumnType>
  /** Whether to ignore the attachments of CouchDB documents. */
  readonly withoutAttachments?: boolean
}

const GZIP_MAGIC = [0x1f, 0x8b]
const OPEN_ARRAY = 0x5b
/** Maximum bytes to search for the first character of a JSON text that is not white space. */
const SPACE_BYTES_MAX = 64 * 1024
/** Bytes from that character on that are enough to recognize a reply of CouchDB. */
const SNIFFED_BYTES = 64
/** The start of a reply of CouchDB to `_all_docs`. */
const COUCHDB_REPLY = /^\s*\{\s*"(?:total_rows"\s*:|rows"\s*:\s*\[)/

/** Yields the records of an input, compressed by gzip or not. Errors: SourceError, FormatError. */
export async function* recordsOf(input: AsyncIterable<Uint8Array>, options: SourceOptions): Pages {
  const bytes = withoutByteOrderMark(uncompressed(input))
  const { format, columnTypes, withoutAttachments = false } = options
  switch (format) {
    case 'csv':
      yield* csvRecords(bytes, columnTypes)
      return
    case 'couchdb':
      yield* couchdbRecords(bytes, { withoutAttachments })
      return
    case 'qldb':
      // Imported here, because no other format needs the Ion parser.
      yield* (await import('./formats/qldb.ts')).qldbRecords(bytes)
      return
    case 'ndjson':
      yield* ndjsonRecords(bytes)
      return
    case 'json':
      yield* arrayRecords(bytes)
      return
    default: {
      const toRecord = format === 'mongodb' ? mongodbRecord : itemRecord
      const { isArray, isCouchdb, chunks } = await sniffed(bytes)
      if (format === null && isCouchdb) {
        throw new FormatError(
          'this is a reply of CouchDB: use --format couchdb (or --format ndjson if each line is an item)',
        )
      }
      yield* isArray ? arrayRecords(chunks, toRecord) : ndjsonRecords(chunks, toRecord)
    }
  }
}

function mongodbRecord(line: number, document: JsonObject) {
  return itemRecord(line, plainObject(document))
}

/** Returns the format that the extension of a file name suggests, or null if the extension suggests none. */
export function formatOfName(name: string): SourceFormat | null {
  const [, extension] = /\.([a-z]+)$/.exec(name.toLowerCase().replace(/\.gz$/, '')) ?? []
  if (extension === 'csv') return 'csv'
  return extension === 'ndjson' || extension === 'jsonl' ? 'ndjson' : null
}

/** Returns the member for the id: `chosen` if given, else `_id` for CouchDB and MongoDB, else null (meaning `id`). */
export function idMemberOf(
  format: SourceFormat | null,
  chosen: string | undefined,
): IdMember | null {
  if (chosen !== undefined) return { name: chosen, isRenamed: false }
  return format === 'couchdb' || format === 'mongodb' ? { name: '_id', isRenamed: true } : null
}

/** Decompresses `input` if the first bytes are those of gzip. Errors: SourceError if the compression is damaged. */
async function* uncompressed(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const { start, chunks } = await peeked(input, (bytes) => bytes.length >= GZIP_MAGIC.length)
  if (!GZIP_MAGIC.every((byte, at) => start[at] === byte)) {
    yield* chunks
    return
  }
  const gunzip = createGunzip({ chunkSize: 256 * 1024 })
  // The error of a failed input is ignored here, because it is also thrown in the loop below.
  pipeline(Readable.from(chunks), gunzip).catch(() => {})
  try {
    for await (const chunk of gunzip) yield chunk
  } catch (error) {
    const isZlib = error instanceof Error && 'code' in error && String(error.code).startsWith('Z_')
    if (!isZlib) throw error
    throw new SourceError(`the gzip compression is damaged: ${error.message}`, { cause: error })
  }
}

async function sniffed(
  input: AsyncIterable<Uint8Array>,
): Promise<{ isArray: boolean; isCouchdb: boolean; chunks: AsyncIterable<Uint8Array> }> {
  const isText = (byte: number) => byte > 0x20
  const { start, chunks } = await peeked(input, (bytes) => {
    const first = bytes.findIndex(isText)
    if (first >= 0 && bytes.length - first >= SNIFFED_BYTES) return true
    return bytes.length >= SPACE_BYTES_MAX || bytes[first] === OPEN_ARRAY
  })
  const isCouchdb = COUCHDB_REPLY.test(start.toString('latin1'))
  return { isArray: start.find(isText) === OPEN_ARRAY, isCouchdb, chunks }
}

/** Reads `input` until `isEnough`. Returns `start`, the bytes read, and `chunks`, the whole input. */
async function peeked(
  input: AsyncIterable<Uint8Array>,
  isEnough: (bytes: Buffer) => boolean,
): Promise<{ start: Buffer; chunks: AsyncIterable<Uint8Array> }> {
  const iterator = input[Symbol.asyncIterator]()
  let start = Buffer.alloc(0)
  while (!isEnough(start)) {
    const next = await iterator.next()
    if (next.done === true) break
    start = Buffer.concat([start, next.value])
  }
  async function* all(): AsyncGenerator<Uint8Array> {
    try {
      if (start.length > 0) yield start
      for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
        yield next.value
      }
    } finally {
      await iterator.return?.()
    }
  }
  return { start, chunks: all() }
}
