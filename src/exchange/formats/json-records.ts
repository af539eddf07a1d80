import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { parseStrictText, StrictJsonError, utf8Text } from '../../base/strict-json.ts'
import { elementsOf } from './json-elements.ts'
import { type LineEnd, linesOf, type Piece, RECORD_BYTES_MAX, withoutReturn } from './lines.ts'
import { itemRecord, type Pages, RecordRefusal, type SourceRecord } from './record.ts'

const REPLACEMENT = '\ufffd'

/** Decodes UTF-8. Errors: StrictJsonError for malformed UTF-8. */
export function textOf(bytes: Buffer): string {
  // Decoding without a check is faster, and replaces each malformed sequence by REPLACEMENT.
  const text = bytes.toString('utf8')
  return text.includes(REPLACEMENT) ? utf8Text(bytes) : text
}

/** Parses JSON that can be stored unchanged. Errors: StrictJsonError. */
function jsonOf(bytes: Buffer): Json {
  return parseStrictText(textOf(bytes))
}

/** Returns the JSON object in `piece`. Errors: RecordRefusal, StrictJsonError. */
function objectOf({ bytes }: Piece): JsonObject {
  const value = jsonOf(requireBytes(bytes))
  if (isJsonObject(value)) return value
  throw new RecordRefusal('it is not a JSON object')
}

/** Returns `bytes`. Errors: RecordRefusal for null, because the piece was too long. */
export function requireBytes(bytes: Buffer | null): Buffer {
  if (bytes !== null) return bytes
  throw new RecordRefusal(`it has more than ${RECORD_BYTES_MAX} bytes`)
}

/** Returns the record that `read` returns, or a refused record if `read` throws RecordRefusal or StrictJsonError. */
export function recordOf(line: number, read: () => SourceRecord): SourceRecord {
  try {
    return read()
  } catch (error) {
    const isRefusal = error instanceof RecordRefusal || error instanceof StrictJsonError
    if (!isRefusal) throw error
    return { kind: 'refused', line, reason: reasonOf(error) }
  }
}

/** Returns the message of `error`, with “it” (the record) instead of “the body”, and without the position. */
export function reasonOf({ message }: Error): string {
  return message.replace(/^the body is/, 'it is').replace(/ \(line \d+ column \d+\)$/, '')
}

function isBlank(bytes: Buffer | null): boolean {
  return bytes?.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d) ?? false
}

/** Yields the records of NDJSON, one object per line. Blank lines are ignored. `toRecord` converts each object. */
export async function* ndjsonRecords(
  chunks: AsyncIterable<Uint8Array>,
  lineEnd: LineEnd,
  toRecord: (line: number, object: JsonObject) => SourceRecord = itemRecord,
): Pages {
  for await (const lines of linesOf(chunks, lineEnd)) {
    const filled = lines.filter(({ bytes }) => !isBlank(bytes))
    yield filled.map((piece) =>
      recordOf(piece.line, () => {
        const bytes = piece.bytes === null ? null : withoutReturn(piece.bytes)
        return toRecord(piece.line, objectOf({ ...piece, bytes }))
      }),
    )
  }
}

/** Yields the records of a JSON array of objects. `members`: as for `elementsOf`. `toRecord` converts each object. */
export async function* arrayRecords(
  chunks: AsyncIterable<Uint8Array>,
  toRecord: (line: number, object: JsonObject) => SourceRecord = itemRecord,
  members: readonly string[] = [],
): Pages {
  for await (const pieces of elementsOf(chunks, members)) {
    yield pieces.map((piece) => recordOf(piece.line, () => toRecord(piece.line, objectOf(piece))))
  }
}
