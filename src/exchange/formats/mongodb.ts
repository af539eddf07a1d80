import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { isBase64, RecordRefusal } from './record.ts'

const ISO_DATE = /^[+-]?\d{4,6}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?)?$/
/** `Number` would also accept spaces, and digits of other bases such as `0x10`. */
const DECIMAL = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/
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

/**
 * Requires that the value of `_id` has one text that can be an id: a text, an integer, an ObjectId or a UUID. Errors:
 * RecordRefusal.
 */
export function requireMongodbId(value: Json | undefined): void {
  if (value === null || typeof value !== 'object') return
  const [type = 'an object'] = isJsonObject(value) ? Object.keys(value) : []
  const isNumber = /^\$number(Int|Long|Double)$/.test(type)
  const isUuid = type === '$binary' && UUID.test(String(plainValue(value)))
  if (isNumber || isUuid || type === '$oid' || type === '$uuid') return
  const what = type.startsWith('$') ? type : 'an object or a list'
  throw new RecordRefusal(`its _id is of another type, ${what}: choose another member with --id`)
}

const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/

function plainValue(value: Json): Json {
  if (Array.isArray(value)) return value.map(plainValue)
  if (!isJsonObject(value)) return value
  for (const name in value) {
    if (!name.startsWith('$')) break
    const convert = CONVERSIONS[name]
    if (convert === undefined) continue
    const other = Object.keys(value).find((each) => each !== name && each !== COMPANIONS[name])
    if (other === undefined) return convert(value, value[name] ?? null)
    throw new RecordRefusal(`${name} has the member ${other} beside it`)
  }
  return plainObject(value)
}

/** Members that may be beside the member with the type. */
const COMPANIONS: Readonly<Record<string, string>> = {
  $binary: '$type',
  $regex: '$options',
  $code: '$scope',
}

type Conversion = (whole: JsonObject, value: Json) => Json

/** Conversions, by the name of the first member of an object. */
const CONVERSIONS: Readonly<Record<string, Conversion>> = {
  $oid: (_, value) => text('$oid', value),
  $uuid: (_, value) => formatUuid(text('$uuid', value).replaceAll('-', '')),
  $symbol: (_, value) => text('$symbol', value),
  $numberInt: (_, value) => convertLong('$numberInt', value),
  $numberLong: (_, value) => convertLong('$numberLong', value),
  $numberDouble: (_, value) => convertDouble(value),
  $numberDecimal: (_, value) => text('$numberDecimal', value),
  $date: (_, value) => convertDate(value),
  $binary: (whole, value) => convertBinary(value, whole.$type),
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

function convertLong(type: string, value: Json): Json {
  if (typeof value === 'number') return value
  if (typeof value !== 'string' || !/^-?\d{1,20}$/.test(value)) {
    throw new RecordRefusal(`${type} is not an integer`)
  }
  const integer = BigInt(value)
  return integer >= -SAFE && integer <= SAFE ? Number(integer) : value
}

function convertDouble(value: Json): Json {
  if (typeof value === 'number') return value
  const number = typeof value === 'string' && DECIMAL.test(value) ? Number(value) : Number.NaN
  if (Number.isFinite(number)) return number
  if (value === 'Infinity' || value === '-Infinity' || value === 'NaN') return value
  throw new RecordRefusal('$numberDouble is not a number')
}

function convertDate(value: Json): Json {
  if (typeof value === 'string') {
    // mongoexport of MongoDB before 4.2 writes time zones without a colon.
    const text = value.replace(/([+-]\d{2})(\d{2})$/, '$1:$2')
    // `Date` takes 30 February for a day in March.
    const [, day = ''] = /^([+-]?\d+-\d{2}-\d{2})/.exec(text) ?? []
    const isDay = isoDay(day)?.startsWith(day) === true
    if (ISO_DATE.test(text) && isDay && !Number.isNaN(Date.parse(text))) return text
    throw new RecordRefusal('$date is not a date of ISO 8601')
  }
  const ms = isJsonObject(value) ? convertLong('$date', value.$numberLong ?? null) : value
  if (typeof ms !== 'number' || Math.abs(ms) > DATE_MS_MAX) {
    throw new RecordRefusal('$date is not a date')
  }
  return new Date(ms).toISOString()
}

function isoDay(day: string): string | null {
  const ms = Date.parse(`${day}T00:00:00Z`)
  return Number.isNaN(ms) ? null : new Date(ms).toISOString()
}

/** Returns a UUID (subtype 4) as a UUID, all other bytes as base64. */
function convertBinary(value: Json, oldType: Json | undefined): string {
  const base64 = text('$binary', isJsonObject(value) ? (value.base64 ?? null) : value)
  const type = isJsonObject(value) ? value.subType : oldType
  if (!isBase64(base64)) throw new RecordRefusal('$binary is not base64')
  const bytes = Buffer.from(base64, 'base64')
  const isUuid = /^0?4$/.test(String(type)) && bytes.length === 16
  return isUuid ? formatUuid(bytes.toString('hex')) : base64
}

/** Formats 32 hexadecimal digits as a UUID. */
function formatUuid(digits: string): string {
  const text = digits.toLowerCase().replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  if (UUID.test(text)) return text
  throw new RecordRefusal('$uuid is not a UUID')
}

function pattern(value: Json): string {
  const { pattern = null, options = '' } = isJsonObject(value) ? value : {}
  return `/${text('$regularExpression', pattern)}/${text('$regularExpression', options)}`
}
