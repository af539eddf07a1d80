import { IonTypes, makeReader, type Reader } from 'ion-js'
import type { Json, JsonObject } from '../../base/json.ts'
import { JSON_DEPTH_MAX, parseStrictText, StrictJsonError } from '../../base/strict-json.ts'
import { RecordRefusal } from './record.ts'

const BINARY_START = Buffer.from([0xe0, 0x01, 0x00, 0xea])
const LINE_FEED = 0x0a
/** Maximum nesting of a value. A revision's data is inside three levels: block, list of revisions, revision. */
const DEPTH_MAX = JSON_DEPTH_MAX + 3

/** A top-level value of Ion, converted to JSON, or the reason why the value cannot be converted. */
export interface IonValue {
  /** In Ion text, the line of the value. In Ion binary, the number of the value. */
  readonly line: number
  readonly value: Json | RecordRefusal
}

/**
 * Yields the top-level values of Ion text, Ion binary or JSON, converted to JSON. Table of the conversions:
 * docs/how-to/migrate.md. Errors: those of ion-js for malformed Ion.
 */
export function* ionValues(bytes: Buffer): Generator<IonValue> {
  const isBinary = bytes.subarray(0, BINARY_START.length).equals(BINARY_START)
  const reader = makeReader(bytes)
  let line = 1
  let counted = 0
  for (let type = reader.next(); type !== null; type = reader.next()) {
    if (isBinary) {
      yield { line, value: valueOrRefusal(reader) }
      line += 1
      continue
    }
    const position = Math.min(reader.position(), bytes.length)
    for (; counted < position; counted += 1) if (bytes[counted] === LINE_FEED) line += 1
    yield { line, value: valueOrRefusal(reader) }
  }
}

function valueOrRefusal(reader: Reader): Json | RecordRefusal {
  const depth = reader.depth()
  try {
    return toJson(reader)
  } catch (error) {
    if (!(error instanceof RecordRefusal)) throw error
    // Skips the rest of the value.
    while (reader.depth() > depth) reader.stepOut()
    return error
  }
}

/** Converts the current value without its annotations. Errors: RecordRefusal. */
function toJson(reader: Reader): Json {
  if (reader.isNull()) return null
  switch (reader.type()) {
    case IonTypes.BOOL:
      return reader.booleanValue()
    case IonTypes.INT: {
      const integer = reader.bigIntValue() ?? 0n
      return Number.isSafeInteger(Number(integer)) ? Number(integer) : String(integer)
    }
    case IonTypes.FLOAT: {
      const number = reader.numberValue() ?? 0
      return Number.isFinite(number) ? number : String(number)
    }
    case IonTypes.DECIMAL:
      return convertDecimal(String(reader.decimalValue()))
    case IonTypes.TIMESTAMP:
      // Ion writes a T at the end of a date without a time of day.
      return String(reader.timestampValue()).replace(/T$/, '')
    case IonTypes.BLOB:
    case IonTypes.CLOB:
      return Buffer.from(reader.uInt8ArrayValue() ?? []).toString('base64')
    case IonTypes.LIST:
    case IonTypes.SEXP:
      return inside(reader, () => {
        const list: Json[] = []
        while (reader.next() !== null) list.push(toJson(reader))
        return list
      })
    case IonTypes.STRUCT:
      return inside(reader, () => readStruct(reader))
    default:
      return requireText(reader.stringValue())
  }
}

function inside<Result>(reader: Reader, read: () => Result): Result {
  if (reader.depth() >= DEPTH_MAX) throw new RecordRefusal('it is nested too deeply')
  reader.stepIn()
  const result = read()
  reader.stepOut()
  return result
}

function readStruct(reader: Reader): JsonObject {
  const members: JsonObject = {}
  while (reader.next() !== null) {
    const name = requireText(reader.fieldName())
    if (name === '__proto__') throw new RecordRefusal('a member must not be named __proto__')
    if (Object.hasOwn(members, name)) throw new RecordRefusal(`it has the member ${name} twice`)
    members[name] = toJson(reader)
  }
  return members
}

/** Returns `text`. Errors: RecordRefusal for null, and for a lone surrogate, because it cannot be hashed. */
function requireText(text: string | null): string {
  if (text?.isWellFormed()) return text
  throw new RecordRefusal('a text contains a lone surrogate, or a symbol without text')
}

/** Returns a number if a JSON number has exactly the value of the decimal, otherwise the text of the decimal. */
function convertDecimal(text: string): Json {
  try {
    const value = parseStrictText(text)
    return typeof value === 'number' ? value : text
  } catch (error) {
    if (error instanceof StrictJsonError) return text
    throw error
  }
}
