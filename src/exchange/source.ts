import { decompressInput, type PeekedInput, peekInput } from '../base/files/compressed-input.ts'
import type { JsonObject } from '../base/json.ts'
import type { SourceFormat } from './choices.ts'
import { InputError } from './errors.ts'
import { refuseForeign, requireLines } from './foreign.ts'
import { couchdbRecords } from './formats/couchdb.ts'
import { type ColumnType, csvRecords } from './formats/csv.ts'
import type { IdMember } from './formats/identity.ts'
import { arrayRecords, ndjsonRecords } from './formats/json-records.ts'
import { findLineEnd, findUtf16 } from './formats/lines.ts'
import { plainObject, requireMongodbId } from './formats/mongodb.ts'
import { itemRecord, type RecordPages } from './formats/record.ts'

export interface SourceOptions {
  /** The format; null for NDJSON or a JSON array, depending on the first character of the input. */
  readonly format: SourceFormat | null
  /**
   * Whether the format is a guess. Then exports that need another format or another member for the id are rejected,
   * because each of their records would become an item with a new id. Default: whether `format` is null.
   */
  readonly isGuess?: boolean
  /** The member that the user chose for the id; null or absent: none. */
  readonly idMember?: string | null
  /** Types of CSV columns, which take precedence over types in the header. */
  readonly columnTypes?: ReadonlyMap<string, ColumnType>
  /** Whether to ignore the attachments of CouchDB documents. */
  readonly withoutAttachments?: boolean
}

const OPEN_ARRAY = 0x5b
/** Bytes at the start of an input from which its encoding, line ends and format are recognized. */
const START_BYTES = 64 * 1024

/**
 * Yields the records of an input, compressed by gzip or not, in UTF-8 or UTF-16. Errors:
 * InputError, FormatError.
 */
export async function* readRecords(
  input: AsyncIterable<Uint8Array>,
  options: SourceOptions,
): RecordPages {
  const { format, isGuess = format === null, idMember = null } = options
  const bytes = decompressInput(input, (error) => {
    return new InputError(`the gzip compression is damaged: ${error.message}`, { cause: error })
  })
  const opened = await openText(bytes, format)
  const pages = readFormat(opened, options)
  yield* isGuess ? refuseForeign(pages, idMember) : pages
}

async function* readFormat(
  { start, chunks }: PeekedInput,
  { format, columnTypes = new Map(), withoutAttachments = false, idMember = null }: SourceOptions,
): RecordPages {
  const lineEnd = findLineEnd(start)
  switch (format) {
    case 'csv':
      yield* csvRecords(chunks, { types: columnTypes, lineEnd })
      return
    case 'couchdb':
      yield* couchdbRecords(chunks, { withoutAttachments })
      return
    case 'qldb':
      // Imported here, because no other format needs the Ion parser.
      yield* (await import('./formats/qldb.ts')).qldbRecords(chunks)
      return
    case 'ndjson':
      yield* ndjsonRecords(chunks, lineEnd)
      return
    case 'json':
      yield* arrayRecords(chunks)
      return
    default: {
      const needsId = idMember === null || idMember === '_id'
      const toRecord = format === 'mongodb' ? mongodbRecord(needsId) : itemRecord
      const isArray = start.find((byte) => byte > 0x20) === OPEN_ARRAY
      if (!isArray) requireLines(start, lineEnd)
      yield* isArray ? arrayRecords(chunks, toRecord) : ndjsonRecords(chunks, lineEnd, toRecord)
    }
  }
}

function mongodbRecord(needsId: boolean) {
  return (line: number, document: JsonObject) => {
    if (needsId) requireMongodbId(document._id)
    return itemRecord(line, plainObject(document))
  }
}

/** Returns the format that the extension of a file name suggests, or null if the extension suggests none. */
export function findFormat(name: string): SourceFormat | null {
  const [, extension] = /\.([a-z]+)$/.exec(name.toLowerCase().replace(/\.gz$/, '')) ?? []
  if (extension === 'csv' || extension === 'tsv') return 'csv'
  return extension === 'ndjson' || extension === 'jsonl' ? 'ndjson' : null
}

/** Returns the member for the id: `chosen` if given, else `_id` for CouchDB and MongoDB, else null (meaning `id`). */
export function chooseIdMember(
  format: SourceFormat | null,
  chosen: string | undefined,
): IdMember | null {
  if (chosen !== undefined) return { name: chosen, isRenamed: false }
  return format === 'couchdb' || format === 'mongodb' ? { name: '_id', isRenamed: true } : null
}

/** Opens an input as UTF-8 without a byte order mark. Errors: InputError for another kind of file. */
async function openText(
  input: AsyncIterable<Uint8Array>,
  format: SourceFormat | null,
): Promise<PeekedInput> {
  const opened = await peekInput(input, START_BYTES)
  const { start, chunks } = opened
  const encoding = findUtf16(start)
  if (encoding !== null) return peekInput(decodeText(chunks, encoding), START_BYTES)
  if (start[0] === 0xef && start[1] === 0xbb && start[2] === 0xbf) {
    return { start: start.subarray(3), chunks: withoutStart(chunks, 3) }
  }
  const kind = BINARY_KINDS.find(([magic]) => start.subarray(0, magic.length).equals(magic))
  if (kind !== undefined && format !== 'qldb') throw new InputError(`the input is ${kind[1]}`)
  return opened
}

/** Kinds of files that are not text, by their first bytes. */
const BINARY_KINDS: readonly (readonly [magic: Buffer, what: string])[] = [
  [
    Buffer.from('PK\x03\x04', 'latin1'),
    'a ZIP archive or a workbook: unpack it, or save it as CSV',
  ],
  [Buffer.from([0xd0, 0xcf, 0x11, 0xe0]), 'an old workbook: save it as CSV'],
  [Buffer.from([0x28, 0xb5, 0x2f, 0xfd]), 'compressed by zstd: decompress it'],
  [Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a]), 'compressed by xz: decompress it'],
  [Buffer.from('BZh'), 'compressed by bzip2: decompress it'],
  [Buffer.from('SQLite format 3'), 'a database of SQLite: export its tables as CSV or JSON'],
  [Buffer.from('PGDMP'), 'a dump of PostgreSQL: export its tables as CSV, with COPY … CSV HEADER'],
  [Buffer.from('PAR1'), 'in the format Parquet: convert it to CSV or NDJSON'],
  [Buffer.from('Obj\x01', 'latin1'), 'in the format Avro: convert it to NDJSON'],
  [Buffer.from([0xe0, 0x01, 0x00, 0xea]), 'binary Ion: use --format qldb for an export of QLDB'],
]

async function* decodeText(
  chunks: AsyncIterable<Uint8Array>,
  encoding: string,
): AsyncGenerator<Uint8Array> {
  const decoder = new TextDecoder(encoding, { fatal: true })
  try {
    for await (const chunk of chunks) yield Buffer.from(decoder.decode(chunk, { stream: true }))
    yield Buffer.from(decoder.decode())
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    throw new InputError(`the input is not ${encoding.toUpperCase()}`, { cause: error })
  }
}

async function* withoutStart(
  chunks: AsyncIterable<Uint8Array>,
  bytes: number,
): AsyncGenerator<Uint8Array> {
  let left = bytes
  for await (const chunk of chunks) {
    yield chunk.subarray(left)
    left = Math.max(0, left - chunk.length)
  }
}
