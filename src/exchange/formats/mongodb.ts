import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { RecordRefusal } from './record.ts'

const SAFE = BigInt(Number.MAX_SAFE_INTEGER)
/** Maximum milliseconds, positive or negative, of a JavaScript Date. */
const DATE_MS_MAX = 8_640_000_000_000_000

/**
 * Converts MongoDB Extended JSON, canonical or relaxed, to plain JSON. `mongoexport` writes Extended JSON. A number
 * that JSON cannot represent exactly becomes text. Table of the conversions: docs/how-to/migrate.md.
 *
 * Errors: RecordRefusal for a malformed value of a type in CONVERSIONS.
 * Source: specification of MongoDB Extended JSON, version 2, and version 1 for `$date` and `$binary`.
 */
export function plainObject(document: JsonObject): JsonObject {
  const plain: JsonObject = {}
  for (const [name, value] of Object.entries(document)) plain[name] = plainValue(value)
  return plain
}

function plainValue(value: Json): Json {
  if (Array.isArray(value)) return value.map(plainValue)
  if (!isJsonObject(value)) return value
  for (const name in value) {
    if (!name.startsWith('$')) break
    const convert = CONVERSIONS[name]
    if (convert !== undefined) return convert(value, value[name] ?? null)
  }
  return plainObject(value)
}

type Conversion = (whole: JsonObject, value: Json) => Json

/** Conversions, by the name of the first member of an object. */
const CONVERSIONS: Readonly<Record<string, Conversion>> = {
  $oid: (_, value) => text('$oid', value),
  $uuid: (_, value) => text('$uuid', value),
  $symbol: (_, value) => text('$symbol', value),
  $numberInt: (_, value) => long('$numberInt', value),
  $numberLong: (_, value) => long('$numberLong', value),
  $numberDouble: (_, value) => double(value),
  $numberDecimal: (_, value) => text('$numberDecimal', value),
  $date: (_, value) => date(value),
  $binary: (_, value) => binary(value),
  $regularExpression: (_, value) => pattern(value),
  $regex: ({ $options }, value) =>
    pattern({ pattern: value, options: $options === undefined ? '' : $options }),
  $timestamp: (_, value) => value,
  $code: ({ $scope }, value) => {
    const code = text('$code', value)
    return isJsonObject($scope) ? { code, scope: plainObject($scope) } : code
  },
  $minKey: () => '$minKey',
  $maxKey: () => '$maxKey',
  $undefined: () => null,
}

function text(type: string, value: Json): string {
  if (typeof value === 'string') return value
  throw new RecordRefusal(`${type} is not a text`)
}

function long(type: string, value: Json): Json {
  if (typeof value === 'number') return value
  if (typeof value !== 'string' || !/^-?\d{1,20}$/.test(value)) {
    throw new RecordRefusal(`${type} is not an integer`)
  }
  const integer = BigInt(value)
  return integer >= -SAFE && integer <= SAFE ? Number(integer) : value
}

function double(value: Json): Json {
  if (typeof value === 'number') return value
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : Number.NaN
  if (Number.isFinite(number)) return number
  if (value === 'Infinity' || value === '-Infinity' || value === 'NaN') return value
  throw new RecordRefusal('$numberDouble is not a number')
}

function date(value: Json): Json {
  if (typeof value === 'string') {
    if (!Number.isNaN(Date.parse(value))) return value
    throw new RecordRefusal('$date is not a date')
  }
  const ms = isJsonObject(value) ? long('$date', value.$numberLong ?? null) : value
  if (typeof ms !== 'number' || Math.abs(ms) > DATE_MS_MAX) {
    throw new RecordRefusal('$date is not a date')
  }
  return new Date(ms).toISOString()
}

function binary(value: Json): string {
  return text('$binary', isJsonObject(value) ? (value.base64 ?? null) : value)
}

function pattern(value: Json): string {
  const { pattern = null, options = '' } = isJsonObject(value) ? value : {}
  return `/${text('$regularExpression', pattern)}/${text('$regularExpression', options)}`
}
