// The formats of texts that a browser can load, without the modules of Node.
import { refuseForeign, requireLines } from './foreign.ts'
import { csvRecords } from './formats/csv.ts'
import { arrayRecords, ndjsonRecords } from './formats/json-records.ts'
import { findLineEnd } from './formats/lines.ts'
import type { RecordPages } from './formats/record.ts'

export { QUOTED_IN_HEADER, quoteCell } from './formats/csv.ts'
export { findUtf16 } from './formats/lines.ts'

const CHUNK_BYTES = 256 * 1024
const OPEN_ARRAY = 0x5b
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf]

async function* toChunks(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) yield bytes.subarray(at, at + CHUNK_BYTES)
}

/** Returns the character that ends the records of a file without byte order mark, from its start. */
export function findRecordEnd(file: Uint8Array): string {
  return String.fromCharCode(findLineEnd(file.subarray(0, CHUNK_BYTES)))
}

/** Yields the records of a file in UTF-8: CSV, or else a JSON array or NDJSON. Errors: InputError, FormatError. */
export function fileRecords(file: Uint8Array, isCsv: boolean): RecordPages {
  const hasMark = BYTE_ORDER_MARK.every((byte, at) => file[at] === byte)
  const bytes = hasMark ? file.subarray(BYTE_ORDER_MARK.length) : file
  const start = bytes.subarray(0, CHUNK_BYTES)
  const lineEnd = findLineEnd(start)
  if (isCsv) return refuseForeign(csvRecords(toChunks(bytes), { types: new Map(), lineEnd }), null)
  if (start.find((byte) => byte > 0x20) === OPEN_ARRAY) {
    return refuseForeign(arrayRecords(toChunks(bytes)), null)
  }
  requireLines(start, lineEnd)
  return refuseForeign(ndjsonRecords(toChunks(bytes), lineEnd), null)
}
