// Parsers for the replies of the sources. Each parser converts a body to a quote. Errors: RateSourceError.
import { createHash } from 'node:crypto'
import { canonicalJson } from '../base/canonical-json.ts'
import { isJsonObject, type Json, type JsonObject } from '../base/json.ts'
import { parseForeignJson, parseStrictText, StrictJsonError } from '../base/strict-json.ts'
import { RateSourceError } from './errors.ts'
import { createQuote, QUOTED, type Quote, type RateVector } from './rates.ts'

const ECB_TIME = /<Cube\s{1,64}time=(["'])([^"'<>]{1,32})\1/g
const ECB_RATE =
  /<Cube\s{1,64}currency=(["'])([A-Z]{3})\1\s{1,64}rate=(["'])([^"'<>]{0,32})\3\s{0,64}\/>/g

/**
 * Parses the ECB's daily file. Two bounded patterns are enough instead of an XML parser, because the file is a flat
 * list. Rejects a file with a DTD, a comment or CDATA, because the patterns would ignore these constructs.
 */
export function parseEcb(text: string): Quote {
  if (text.includes('<!')) throw malformed('the file contains a DTD, a comment or CDATA')
  const [time, ...others] = [...text.matchAll(ECB_TIME)].map(([, , time = '']) => time)
  if (time === undefined || others.length > 0)
    throw malformed('the file does not contain exactly one date')
  const rates = [...text.matchAll(ECB_RATE)].map(([, , code = '', , rate = '']) => {
    const isDecimal = /^\d{1,9}(?:\.\d{1,12})?$/.test(rate)
    return [code, isDecimal ? Number(rate) : Number.NaN] as const
  })
  return createQuote(time, rates)
}

/** Parses `{base: "EUR", date, rates}` of Frankfurter. */
export function parseFrankfurter(text: string): Quote {
  const body = parseBody(text)
  if (body.base !== 'EUR') throw malformed('the base is not EUR')
  return createQuote(requireText(body, 'date'), requireNumbers(requireObject(body, 'rates')))
}

/**
 * Parses a vector document `{source, asOf, perEur, sha256}`. The checksum is optional, but must match. Source:
 * docs/reference/rates.md, “Vector files”. A currency that occurs twice is an error.
 */
export function parseVectorDocument(text: string): Quote {
  const body = parseBody(text, parseStrictText)
  const [source, asOf] = [requireText(body, 'source'), requireText(body, 'asOf')]
  // Special characters are not allowed, because the name is sent in a header and logged.
  if (!/^[\w .+:-]{1,64}$/.test(source)) throw malformed('source has invalid characters')
  const perEur = requireObject(body, 'perEur')
  if (body.sha256 !== undefined && body.sha256 !== digestJson({ source, asOf, perEur })) {
    throw new RateSourceError('CHECKSUM_WRONG', 'the sha256 does not match')
  }
  return createQuote(asOf, requireNumbers(perEur), source)
}

/** Formats `vector` as a vector document with its checksum. */
export function formatVectorDocument({ source, origin, asOf, perEur }: RateVector): string {
  const document = { source: origin ?? source, asOf, perEur: { ...perEur } }
  return `${JSON.stringify({ ...document, sha256: digestJson(document) }, null, 2)}\n`
}

/** Returns the hexadecimal SHA-256 of the canonical JSON of `value`. */
export function digestJson(value: JsonObject): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex')
}

/** Parses a JSON object. Errors: RateSourceError MALFORMED; REFUSED if the object reports a failure. */
function parseBody(text: string, parse: (text: string) => Json = parseForeignJson): JsonObject {
  let value: Json
  try {
    value = parse(text)
  } catch (error) {
    const { code, message } =
      error instanceof StrictJsonError ? error : { code: null, message: 'the body is not JSON' }
    const isNumber = code === 'JSON_NUMBER_INEXACT'
    throw new RateSourceError(isNumber ? 'VALUE_INVALID' : 'MALFORMED', message, { cause: error })
  }
  if (!isJsonObject(value)) throw malformed('the body is not a JSON object')
  if (value.success === false || value.error) {
    throw new RateSourceError('REFUSED', 'the body reports a failure')
  }
  return value
}

function malformed(message: string): RateSourceError {
  return new RateSourceError('MALFORMED', message)
}

function requireText(object: JsonObject, name: string): string {
  const value = object[name]
  if (typeof value !== 'string') throw malformed(`${name} is not a string`)
  return value
}

function requireObject(object: JsonObject, name: string): JsonObject {
  const value = object[name]
  if (!isJsonObject(value)) throw malformed(`${name} is not an object`)
  return value
}

/** Returns code and value of each known currency in `object`. */
function requireNumbers(object: JsonObject): [string, number][] {
  return QUOTED.flatMap((code) => {
    if (!Object.hasOwn(object, code)) return []
    const value = object[code]
    if (typeof value === 'number') return [[code, value]]
    throw new RateSourceError('VALUE_INVALID', `${code} is not a number`)
  })
}
