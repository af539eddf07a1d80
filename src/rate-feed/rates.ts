import { parseIsoTime } from '../base/iso-time.ts'
import { RateSourceError } from './errors.ts'

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

/** Units of each currency per euro, unrounded. */
export type PerEur = Readonly<Record<(typeof CURRENCIES)[number], number>>

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
export function computeRates(perEur: PerEur): Rates {
  const units: Readonly<Record<string, number>> = { EUR: 1, ...perEur }
  const rates = PAIRS.map((pair) => {
    const rate = (units[pair.slice(3)] ?? Number.NaN) / (units[pair.slice(0, 3)] ?? Number.NaN)
    return [pair, Number(rate.toFixed(pair.endsWith('JPY') ? 3 : 5))]
  })
  // The type is correct, because `rates` has one entry for each pair.
  return Object.fromEntries(rates) as Rates
}

/** The rates of all currencies at a date, as a source provides them. */
export interface Quote {
  /** `YYYY-MM-DD`, or `YYYY-MM-DDThh:mm:ssZ`. */
  readonly asOf: string
  /** `asOf` in milliseconds since the Unix epoch. A date means midnight GMT. */
  readonly asOfMs: number
  /** Units per euro of each currency and of CNY, the onshore renminbi. CNH or CNY can be absent, but not both. */
  readonly perEur: Readonly<Record<string, number>>
  /** Original source of stored rates, or null for rates that come directly from their source. */
  readonly origin: string | null
}

/** A quote with the name of its source. */
export interface RateVector extends Quote {
  readonly source: string
}

/** Currencies that a quote can contain. */
export const QUOTED: readonly string[] = [...CURRENCIES, 'CNY']
/** Minimum and maximum units per euro. No listed currency has ever exceeded these limits. */
const PER_EUR_MIN = 1e-4
const PER_EUR_MAX = 1e6

/**
 * Creates a quote from `entries`, each with a code and units per euro. Ignores unknown codes. Errors: RateSourceError
 * DATE_INVALID; VALUE_INVALID for a value out of range or a repeated code; INCOMPLETE with the missing currencies.
 */
export function createQuote(
  asOf: string,
  entries: Iterable<readonly [string, number]>,
  origin: string | null = null,
): Quote {
  const asOfMs = parseInstant(asOf)
  if (asOfMs === null) throw new RateSourceError('DATE_INVALID', 'the date is invalid')
  const perEur: Record<string, number> = {}
  for (const [code, value] of entries) {
    if (!QUOTED.includes(code)) continue
    if (!(value >= PER_EUR_MIN && value <= PER_EUR_MAX)) {
      throw new RateSourceError('VALUE_INVALID', `${code} is ${value} per euro`)
    }
    if (code in perEur) throw new RateSourceError('VALUE_INVALID', `${code} is repeated`)
    perEur[code] = value
  }
  const missing = CURRENCIES.filter((code) => completeUnits({ perEur })[code] === undefined)
  if (missing.length > 0) {
    const verb = missing.length === 1 ? 'is' : 'are'
    throw new RateSourceError('INCOMPLETE', `${missing.join(', ')} ${verb} missing`)
  }
  return { asOf, asOfMs, perEur, origin }
}

/** Returns the units of each currency of the pairs. CNY, the onshore renminbi, replaces CNH if CNH is absent. */
export function completeUnits({ perEur }: Pick<Quote, 'perEur'>): PerEur {
  const units = CURRENCIES.map((code) => [code, perEur[code]])
  // The type is correct for a quote, because no currency is missing.
  return { ...Object.fromEntries(units), CNH: perEur.CNH ?? perEur.CNY } as PerEur
}

/** Parses `YYYY-MM-DD` or `YYYY-MM-DDThh:mm:ss[.fff]Z` into milliseconds. Returns null for other strings. */
export function parseInstant(text: string): number | null {
  return /^[\d-]{10}(?:T[\d:]{8}(?:\.\d{1,9})?Z)?$/.test(text) ? parseIsoTime(text) : null
}

/** The built-in rates. Source: ECB statistics, reference rates of 6 October 2026. */
export const SNAPSHOT: Quote = createQuote(
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
