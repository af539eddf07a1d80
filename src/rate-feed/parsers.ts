// Parsers for the replies of the sources. Each parser converts a body to a quote. Errors: SourceError.
import { createHash } from 'node:crypto'
import { canonicalJson } from '../base/canonical-json.ts'
import { isJsonObject, type Json, type JsonObject } from '../base/json.ts'
import { parseForeignJson, parseStrictText, StrictJsonError } from '../base/strict-json.ts'
import { SourceError } from './errors.ts'
import { parseInstant, QUOTED, type Quote, quoteOf, type VectorDocument } from './rates.ts'

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
    return [code, decimal(rate)] as const
  })
  return quoteOf(time, rates)
}

/** Parses `{base: "EUR", date, rates}` of Frankfurter. */
export function parseFrankfurter(text: string): Quote {
  const body = parseBody(text)
  if (body.base !== 'EUR') throw malformed('the base is not EUR')
  return quoteOf(stringIn(body, 'date'), numbersIn(objectIn(body, 'rates')))
}

/** Parses `{date, eur: {usd, …}}` of exchange-api. */
export function parseExchangeApi(text: string): Quote {
  const body = parseBody(text)
  const rates = numbersIn(objectIn(body, 'eur'), (code) => code.toLowerCase())
  return quoteOf(stringIn(body, 'date'), rates)
}

/** Parses `{timestamp, base: "USD", rates}` of Open Exchange Rates, and converts the rates to units per euro. */
export function parseOpenExchangeRates(text: string): Quote {
  const body = parseBody(text)
  const { base, timestamp } = body
  if (base !== 'USD') throw malformed('the base is not USD')
  if (typeof timestamp !== 'number' || !Number.isSafeInteger(timestamp) || timestamp > 1e11) {
    throw new SourceError('DATE_INVALID', 'the timestamp is not a number of seconds')
  }
  const rates = objectIn(body, 'rates')
  const euro = rates.EUR
  if (typeof euro !== 'number' || !(euro > 0)) {
    throw new SourceError('VALUE_INVALID', 'EUR is not a positive number')
  }
  const others = numbersIn(rates).filter(([code]) => code !== 'USD')
  const perEur = others.map(([code, perDollar]) => [code, perDollar / euro] as const)
  return quoteOf(instantText(timestamp * 1_000), [['USD', 1 / euro], ...perEur])
}

/** Delay until the next request when the market is closed. */
const CLOSED_MS = 10 * 60_000
/** Maximum plausible difference between ask and bid, as a fraction of bid. */
const SPREAD_MAX = 0.05
const PRICES_MAX = 200
/**
 * Currencies for which GMO Coin has a price in yen. The units of such a currency per euro are the price of the euro
 * divided by the price of the currency.
 */
const GMO_CODES = 'USD AUD GBP NZD CAD CHF ZAR TRY NOK SEK MXN HKD'.split(' ')

/**
 * Parses `{status: 0, data: [{symbol, ask, bid, timestamp, status}]}` of GMO Coin. A price is the mean of bid and ask.
 * The time of the quote is the time of the oldest price. Errors: MARKET_CLOSED if any price is not `OPEN`, for example
 * at weekends.
 */
export function parseGmo(text: string): Quote {
  const { status, data } = parseBody(text)
  if (status !== 0) throw new SourceError('REFUSED', 'the body reports a failure')
  if (!Array.isArray(data) || data.length > PRICES_MAX) throw malformed('data is not a price list')
  const prices = new Map<string, JsonObject>()
  for (const price of data) {
    if (!isJsonObject(price)) throw malformed('a price is not an object')
    prices.set(stringIn(price, 'symbol'), price)
  }
  const required = (code: string) => {
    const price = gmoPrice(prices, code)
    if (price === null) throw new SourceError('INCOMPLETE', `${code}_JPY is missing`)
    return price
  }
  const euro = required('EUR')
  required('USD')
  let oldestMs = euro.timeMs
  const perEur: [string, number][] = [['JPY', euro.yen]]
  for (const code of GMO_CODES) {
    const price = gmoPrice(prices, code)
    if (price === null) continue
    perEur.push([code, euro.yen / price.yen])
    oldestMs = Math.min(oldestMs, price.timeMs)
  }
  return quoteOf(instantText(oldestMs), perEur)
}

function gmoPrice(prices: ReadonlyMap<string, JsonObject>, code: string) {
  const symbol = `${code}_JPY`
  const price = prices.get(symbol)
  if (price === undefined) return null
  if (price.status !== 'OPEN') {
    throw new SourceError('MARKET_CLOSED', `${symbol} is not open`, { retryAfterMs: CLOSED_MS })
  }
  const [ask, bid] = [decimal(stringIn(price, 'ask')), decimal(stringIn(price, 'bid'))]
  if (!(bid > 0 && ask >= bid && ask - bid <= bid * SPREAD_MAX)) {
    throw new SourceError(
      'VALUE_INVALID',
      `${symbol} has an implausible spread: bid ${bid}, ask ${ask}`,
    )
  }
  const timeMs = parseInstant(stringIn(price, 'timestamp'))
  if (timeMs === null) throw new SourceError('DATE_INVALID', `${symbol} has no valid timestamp`)
  return { yen: (ask + bid) / 2, timeMs }
}

function decimal(text: string): number {
  return /^\d{1,9}(?:\.\d{1,12})?$/.test(text) ? Number(text) : Number.NaN
}

/** Formats milliseconds since the Unix epoch as `YYYY-MM-DDThh:mm:ssZ`. */
function instantText(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z')
}

/**
 * Parses a vector document `{source, asOf, perEur, sha256}`. The checksum is optional, but must match. Source:
 * docs/reference/rates.md, “Vector files”. A currency that occurs twice is an error.
 */
export function parseVectorDocument(text: string): Quote {
  const body = parseBody(text, parseStrictText)
  const [source, asOf] = [stringIn(body, 'source'), stringIn(body, 'asOf')]
  // Special characters are not allowed, because the name is sent in a header and logged.
  if (!/^[\w .+:-]{1,64}$/.test(source)) throw malformed('source has invalid characters')
  const perEur = objectIn(body, 'perEur')
  if (body.sha256 !== undefined && body.sha256 !== sha256Of({ source, asOf, perEur })) {
    throw new SourceError('CHECKSUM_WRONG', 'the sha256 does not match')
  }
  return quoteOf(asOf, numbersIn(perEur), source)
}

/** Formats `document` as a file with its checksum. */
export function formatVectorDocument({ source, asOf, perEur }: VectorDocument): string {
  const sha256 = sha256Of({ source, asOf, perEur: { ...perEur } })
  return `${JSON.stringify({ source, asOf, perEur, sha256 }, null, 2)}\n`
}

/** Returns the hexadecimal SHA-256 of the canonical JSON of `value`. */
export function sha256Of(value: JsonObject): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex')
}

/** Parses a JSON object. Errors: SourceError MALFORMED; REFUSED if the object reports a failure. */
function parseBody(text: string, parse: (text: string) => Json = parseForeignJson): JsonObject {
  let value: Json
  try {
    value = parse(text)
  } catch (error) {
    const { code, message } =
      error instanceof StrictJsonError ? error : { code: null, message: 'the body is not JSON' }
    const isNumber = code === 'JSON_NUMBER_INEXACT'
    throw new SourceError(isNumber ? 'VALUE_INVALID' : 'MALFORMED', message, { cause: error })
  }
  if (!isJsonObject(value)) throw malformed('the body is not a JSON object')
  if (value.success === false || value.error) {
    throw new SourceError('REFUSED', 'the body reports a failure')
  }
  return value
}

function malformed(message: string): SourceError {
  return new SourceError('MALFORMED', message)
}

function stringIn(object: JsonObject, name: string): string {
  const value = object[name]
  if (typeof value !== 'string') throw malformed(`${name} is not a string`)
  return value
}

function objectIn(object: JsonObject, name: string): JsonObject {
  const value = object[name]
  if (!isJsonObject(value)) throw malformed(`${name} is not an object`)
  return value
}

/** Returns code and value of each currency in `object`. `memberOf` maps a code to the name of its member. */
function numbersIn(object: JsonObject, memberOf = (code: string) => code): [string, number][] {
  return QUOTED.flatMap((code) => {
    if (!Object.hasOwn(object, memberOf(code))) return []
    const value = object[memberOf(code)]
    if (typeof value === 'number') return [[code, value]]
    throw new SourceError('VALUE_INVALID', `${code} is not a number`)
  })
}
