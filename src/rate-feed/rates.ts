import { SourceError } from './errors.ts'

/** The currencies of the twenty pairs, without the euro. CNH is the offshore renminbi. */
export const CURRENCIES = [
  'USD',
  'JPY',
  'AUD',
  'GBP',
  'NZD',
  'CAD',
  'CHF',
  'HKD',
  'ZAR',
  'TRY',
  'CNH',
  'NOK',
  'SEK',
  'MXN',
] as const

type Currency = (typeof CURRENCIES)[number]

/** Units of each currency per euro, unrounded. */
export type PerEur = Readonly<Record<Currency, number>>

/** The pairs in the order of the reply. Source: specification, “R: rate feed response”. */
export const PAIRS = [
  'USDJPY',
  'EURJPY',
  'EURUSD',
  'AUDJPY',
  'GBPJPY',
  'NZDJPY',
  'CADJPY',
  'CHFJPY',
  'HKDJPY',
  'GBPUSD',
  'USDCHF',
  'ZARJPY',
  'AUDUSD',
  'NZDUSD',
  'EURAUD',
  'TRYJPY',
  'CNHJPY',
  'NOKJPY',
  'SEKJPY',
  'MXNJPY',
] as const

/** A currency pair. The rate of `ABCXYZ` is the number of units of XYZ per unit of ABC. */
export type Pair = (typeof PAIRS)[number]

export type Rates = Readonly<Record<Pair, number>>

/**
 * Computes the twenty rates from unrounded values. Each rate is rounded once: a rate in yen to three decimals, any
 * other rate to five. Source: specification, “A value for pair ABCXYZ …”; decision 0012.
 */
export function ratesOf(perEur: PerEur): Rates {
  const units: Readonly<Record<string, number>> = { EUR: 1, ...perEur }
  const rates = PAIRS.map((pair) => {
    const rate = (units[pair.slice(3)] ?? Number.NaN) / (units[pair.slice(0, 3)] ?? Number.NaN)
    return [pair, Number(rate.toFixed(pair.endsWith('JPY') ? 3 : 5))]
  })
  // The type is correct, because `rates` has one entry for each pair.
  return Object.fromEntries(rates) as Rates
}

/** The rates of some or all currencies that a source provides for a date, and possibly the rate of CNY. */
export interface Quote {
  /** `YYYY-MM-DD`, or `YYYY-MM-DDThh:mm:ssZ`. */
  readonly asOf: string
  /** `asOf` in milliseconds since the Unix epoch. A date means midnight GMT. */
  readonly asOfMs: number
  /** Units per euro. */
  readonly perEur: ReadonlyMap<string, number>
  /** Original source of stored rates, or null for rates that come directly from their source. */
  readonly origin: string | null
}

/** Currencies that a quote can contain. CNY, the onshore renminbi, replaces CNH if CNH is missing. */
export const QUOTED: readonly string[] = [...CURRENCIES, 'CNY']
/** Minimum and maximum units per euro. No listed currency has ever exceeded these limits. */
const PER_EUR_MIN = 1e-4
const PER_EUR_MAX = 1e6

/**
 * Creates a quote from `entries`, each with a code and units per euro. Ignores unknown codes. Errors: SourceError
 * DATE_INVALID; VALUE_INVALID for a value out of range or a repeated code.
 */
export function quoteOf(
  asOf: string,
  entries: Iterable<readonly [string, number]>,
  origin: string | null = null,
): Quote {
  const asOfMs = parseInstant(asOf)
  if (asOfMs === null) throw new SourceError('DATE_INVALID', 'the date is invalid')
  const perEur = new Map<string, number>()
  for (const [code, value] of entries) {
    if (!QUOTED.includes(code)) continue
    if (!(value >= PER_EUR_MIN && value <= PER_EUR_MAX)) {
      throw new SourceError('VALUE_INVALID', `${code} is ${value} per euro`)
    }
    if (perEur.has(code)) throw new SourceError('VALUE_INVALID', `${code} is repeated`)
    perEur.set(code, value)
  }
  return { asOf, asOfMs, perEur, origin }
}

/** Parses `YYYY-MM-DD` or `YYYY-MM-DDThh:mm:ss[.fff]Z` into milliseconds. Returns null for other strings. */
export function parseInstant(text: string): number | null {
  if (!/^\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d{1,9})?Z)?$/.test(text)) return null
  const ms = Date.parse(text)
  // The comparison rejects 31 February, which `Date.parse` changes to a day in March.
  if (Number.isNaN(ms) || !new Date(ms).toISOString().startsWith(text.slice(0, 10))) return null
  return ms
}

/** The built-in rates. Source: ECB statistics, reference rates of 6 October 2026. */
export const SNAPSHOT: Quote = quoteOf(
  '2026-10-06',
  Object.entries({
    USD: 1.1269,
    JPY: 178.15,
    GBP: 0.8488,
    SEK: 11.2425,
    CHF: 0.9359,
    NOK: 10.778,
    TRY: 55.4196,
    AUD: 1.614,
    CAD: 1.6058,
    CNY: 7.5554,
    HKD: 8.8438,
    MXN: 20.2217,
    NZD: 2.0061,
    ZAR: 18.5829,
  }),
  'ecb',
)

/** The rates of all currencies at a date, from which the pairs are computed. */
export interface RateVector extends Omit<Quote, 'perEur'> {
  /** Name of the source. Names of combined sources are joined by `+`. */
  readonly source: string
  readonly perEur: PerEur
  /** The onshore renminbi per euro, or null if the source does not quote it. */
  readonly cny: number | null
  /** Whether `perEur.CNH` is the onshore rate. */
  readonly cnhIsCny: boolean
}

/** A quote with the name of its source, used to complete the quote of another source. */
export interface NamedQuote {
  readonly name: string
  readonly quote: Quote
}

/** Maximum difference between the dates of two quotes that may be combined. */
const COMBINED_AGE_MAX_MS = 7 * 86_400_000
/** Maximum plausible difference of CNH and CNY. The offshore rate differs by about one percent at most. */
const CNH_BASIS_MAX = 0.02
/** Currencies managed against the dollar, whose dollar rate changes less in a day than their euro rate. */
const PEGGED_TO_DOLLAR: ReadonlySet<string> = new Set(['HKD', 'CNH', 'CNY'])

/**
 * Creates the vector of `quote`. `bridge` provides currencies that the source does not quote. A missing CNH is computed
 * from CNY with the ratio in `overlay`. If there is no ratio, CNH equals CNY. Errors: SourceError INCOMPLETE, with the
 * missing currencies.
 */
export function vectorOf(
  name: string,
  quote: Quote,
  overlay: NamedQuote | null = null,
  bridge: NamedQuote | null = null,
): RateVector {
  const values = new Map(quote.perEur)
  const sources = [name]
  if (bridge !== null && isNear(quote, bridge.quote)) {
    if (addMissing(values, bridge.quote)) sources.push(bridge.name)
  }
  const cny = values.get('CNY') ?? null
  let cnhIsCny = false
  if (!values.has('CNH') && cny !== null) {
    const basis = overlay !== null && isNear(quote, overlay.quote) ? cnhBasis(overlay.quote) : null
    cnhIsCny = basis === null
    values.set('CNH', cny * (basis ?? 1))
    if (basis !== null && overlay !== null) sources.push(overlay.name)
  }
  const missing = CURRENCIES.filter((currency) => !values.has(currency))
  if (missing.length > 0)
    throw new SourceError(
      'INCOMPLETE',
      `${missing.join(', ')} ${missing.length === 1 ? 'is' : 'are'} missing`,
    )
  const { origin, asOf, asOfMs } = quote
  // The type is correct, because no currency is missing.
  const perEur = Object.fromEntries(CURRENCIES.map((code) => [code, values.get(code)])) as PerEur
  return { source: sources.join('+'), origin, asOf, asOfMs, perEur, cny, cnhIsCny }
}

function isNear(quote: Quote, other: Quote): boolean {
  return Math.abs(quote.asOfMs - other.asOfMs) <= COMBINED_AGE_MAX_MS
}

/**
 * Adds the currencies of `bridge` that are missing in `values`. Returns whether any was missing. A currency pegged to
 * the dollar keeps its dollar rate, any other currency keeps its euro rate.
 */
function addMissing(values: Map<string, number>, bridge: Quote): boolean {
  const [dollar, bridgeDollar] = [values.get('USD'), bridge.perEur.get('USD')]
  const dollarMove = dollar !== undefined && bridgeDollar !== undefined ? dollar / bridgeDollar : 1
  const missing = [...bridge.perEur].filter(([code]) => !values.has(code))
  for (const [code, value] of missing) {
    values.set(code, PEGGED_TO_DOLLAR.has(code) ? value * dollarMove : value)
  }
  return missing.length > 0
}

/** Returns CNH divided by CNY, or null if the ratio is implausible. */
function cnhBasis({ perEur }: Quote): number | null {
  const basis = (perEur.get('CNH') ?? Number.NaN) / (perEur.get('CNY') ?? Number.NaN)
  return Math.abs(basis - 1) <= CNH_BASIS_MAX ? basis : null
}

/** The format of a vector in files and replies. Source: docs/reference/rates.md, “Vector files”. */
export interface VectorDocument {
  readonly source: string
  readonly asOf: string
  /** Units per euro. Contains `CNY` instead of `CNH` if only the rate of CNY is known. */
  readonly perEur: Readonly<Record<string, number>>
}

/** Converts `vector` to a document. `parseVectorDocument` and `vectorOf` convert the document back. */
export function documentOf(vector: RateVector): VectorDocument {
  const { CNH, ...others } = vector.perEur
  return {
    source: vector.origin ?? vector.source,
    asOf: vector.asOf,
    perEur: vector.cnhIsCny
      ? { ...others, CNY: CNH }
      : { ...others, CNH, ...(vector.cny === null ? {} : { CNY: vector.cny }) },
  }
}

/** Maximum change of a rate without a second source, as a fraction. Source: decision 0012. */
const BAND = 0.1
/** Increase of BAND for each day between the two dates. */
const BAND_PER_DAY = 0.01
/** Maximum of BAND with its increases. */
const BAND_MAX = 0.2
/** Currencies that have changed by BAND_MAX within a day in the past. Their limit is always BAND_MAX. */
const VOLATILE: ReadonlySet<Currency> = new Set(['TRY', 'ZAR', 'MXN'])
/** Maximum relative difference at which two independent sources agree. */
const AGREEMENT_MAX = 0.01
const DAY_MS = 86_400_000

/** Returns the first currency of `candidate` outside of the band around `reference`; null if all are inside. */
export function outOfBand(
  candidate: RateVector,
  reference: RateVector,
): { currency: Currency; value: number; was: number } | null {
  const days = Math.abs(candidate.asOfMs - reference.asOfMs) / DAY_MS
  for (const currency of CURRENCIES) {
    const [value, was] = [candidate.perEur[currency], reference.perEur[currency]]
    const max = VOLATILE.has(currency) ? BAND_MAX : Math.min(BAND + BAND_PER_DAY * days, BAND_MAX)
    if (distance(value, was) > max) return { currency, value, was }
  }
  return null
}

/** Whether the rates of `left` and `right` differ by at most `tolerance`. */
export function agree(left: RateVector, right: RateVector, tolerance = AGREEMENT_MAX): boolean {
  return CURRENCIES.every((code) => distance(left.perEur[code], right.perEur[code]) <= tolerance)
}

/** Returns the relative distance of two positive numbers, in any order. 0.1 means ten percent. */
function distance(value: number, was: number): number {
  return Math.max(value / was, was / value) - 1
}
