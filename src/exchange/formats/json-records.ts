import { isJsonObject, type JsonObject } from '../../base/json.ts'
import { parseStrictJson, StrictJsonError } from '../../base/strict-json.ts'
import { splitElements } from './json-elements.ts'
import { type LineEnd, type Piece, RECORD_BYTES_MAX, splitLines, withoutReturn } from './lines.ts'
import { itemRecord, type RecordPages, RecordRefusal, type SourceRecord } from './record.ts'

/** Returns the JSON object in `piece`. Errors: RecordRefusal, StrictJsonError. */
function requireObject({ bytes }: Piece): JsonObject {
  const value = parseStrictJson(requireBytes(bytes))
  if (isJsonObject(value)) return value
  throw new RecordRefusal('it is not a JSON object')
}

/** Returns `bytes`. Errors: RecordRefusal for null, because the piece was too long. */
export function requireBytes(bytes: Uint8Array | null): Uint8Array {
  if (bytes !== null) return bytes
  throw new RecordRefusal(`it has more than ${RECORD_BYTES_MAX} bytes`)
}

/** Returns the record that `read` returns, or a refused record if `read` throws RecordRefusal or StrictJsonError. */
export function convertRecord(line: number, read: () => SourceRecord): SourceRecord {
  try {
    return read()
  } catch (error) {
    const isRefusal = error instanceof RecordRefusal || error instanceof StrictJsonError
    if (!isRefusal) throw error
    return { kind: 'refused', line, reason: formatRefusal(error) }
  }
}

/** Returns the message of `error`, with “it” (the record) instead of “the body”, and without the position. */
export function formatRefusal({ message }: Error): string {
  return message.replace(/^the body is/, 'it is').replace(/ \(line \d+ column \d+\)$/, '')
}

function isBlank(bytes: Uint8Array | null): boolean {
  return bytes?.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d) ?? false
}

/** Yields the records of NDJSON, one object per line. Blank lines are ignored. `toRecord` converts each object. */
export async function* ndjsonRecords(
  chunks: AsyncIterable<Uint8Array>,
  lineEnd: LineEnd,
  toRecord: (line: number, object: JsonObject) => SourceRecord = itemRecord,
): RecordPages {
  for await (const lines of splitLines(chunks, lineEnd)) {
    const filled = lines.filter(({ bytes }) => !isBlank(bytes))
    yield filled.map((piece) =>
      convertRecord(piece.line, () => {
        const bytes = piece.bytes === null ? null : withoutReturn(piece.bytes)
        return toRecord(piece.line, requireObject({ ...piece, bytes }))
      }),
    )
  }
}

/** Yields the records of a JSON array of objects. `members`: as for `splitElements`. `toRecord` converts each object. */
export async function* arrayRecords(
  chunks: AsyncIterable<Uint8Array>,
  toRecord: (line: number, object: JsonObject) => SourceRecord = itemRecord,
  members: readonly string[] = [],
): RecordPages {
  for await (const pieces of splitElements(chunks, members)) {
    yield pieces.map((piece) =>
      convertRecord(piece.line, () => toRecord(piece.line, requireObject(piece))),
    )
  }
}
