import { CURRENCIES, type Currency, type PerEur } from './currencies.ts'
import { SourceError } from './source-error.ts'

/**
 * What one source said, checked value by value: any of the currencies of a vector, and `CNY`.
 *
 * It may lack some; `vectorOf` completes it or refuses it.
 */
export interface Quote {
  /** `YYYY-MM-DD`, or an instant `YYYY-MM-DDThh:mm:ssZ` where the source is that exact. */
  readonly asOf: string
  /** `asOf` in milliseconds since the Unix epoch; a date counts from its first moment in GMT. */
  readonly asOfMs: number
  /** Units per euro. */
  readonly perEur: ReadonlyMap<string, number>
  /** Where a kept vector once came from; null when the source itself is the origin. */
  readonly origin: string | null
}

/** Units of every currency per euro at one date: what all twenty rates are made of. */
export interface RateVector {
  /** The source, or several joined by `+` when parts were taken from others. */
  readonly source: string
  readonly origin: string | null
  readonly asOf: string
  readonly asOfMs: number
  readonly perEur: PerEur
  /** The onshore renminbi, where the source tells it. */
  readonly cny: number | null
  /** Whether `perEur.CNH` is only the onshore rate standing in. */
  readonly cnhIsCny: boolean
}

/** Quotes of other sources that may complete a vector. */
export interface Helpers {
  /** Tells CNH against CNY. */
  readonly overlay: { readonly name: string; readonly quote: Quote } | null
  /** Tells the currencies that a live source does not trade. */
  readonly bridge: { readonly name: string; readonly quote: Quote } | null
}

/** No help: what is missing stays missing. */
export const NO_HELPERS: Helpers = { overlay: null, bridge: null }

/** What a quote may hold. */
const QUOTED: ReadonlySet<string> = new Set([...CURRENCIES, 'CNY'])
/** Beyond these no currency of the list has ever been; outside is a defect of the source. */
const PER_EUR_MIN = 1e-4
const PER_EUR_MAX = 1e6
/** The offshore renminbi trades within about one percent of the onshore one. */
const CNH_BASIS_MAX = 0.02
/** A helper's quote may differ from the vector's date by this much. */
const HELPER_AGE_MAX_MS = 7 * 86_400_000
/** Managed against the dollar, so they follow it and not the euro between two fixings. */
const BRIDGED_BY_DOLLAR: ReadonlySet<string> = new Set(['HKD', 'CNH', 'CNY'])

/**
 * A quote of `entries` (code and units per euro), of which unknown codes are left out.
 *
 * Errors: SourceError DATE_INVALID; VALUE_INVALID for a value that is no number, not positive or
 * beyond any currency, and for a code named twice.
 */
export function quoteOf(
  asOf: string,
  entries: Iterable<readonly [string, number]>,
  origin: string | null = null,
): Quote {
  const asOfMs = momentOf(asOf)
  if (asOfMs === null) throw new SourceError('DATE_INVALID', 'the date is none')
  const perEur = new Map<string, number>()
  for (const [code, value] of entries) {
    if (!QUOTED.has(code)) continue
    if (!(value >= PER_EUR_MIN && value <= PER_EUR_MAX)) {
      throw new SourceError('VALUE_INVALID', `${code} is ${value} per euro`)
    }
    if (perEur.has(code)) throw new SourceError('VALUE_INVALID', `${code} is named twice`)
    perEur.set(code, value)
  }
  return { asOf, asOfMs, perEur, origin }
}

/** Milliseconds of `YYYY-MM-DD` or `YYYY-MM-DDThh:mm:ss[.fff]Z`, or null when it is neither. */
export function momentOf(text: string): number | null {
  if (!/^\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d{1,9})?Z)?$/.test(text)) return null
  const ms = Date.parse(text)
  // The round trip refuses the 31st of February, which some parsers move to March.
  if (Number.isNaN(ms) || !new Date(ms).toISOString().startsWith(text.slice(0, 10))) return null
  return ms
}

/**
 * The vector that `quote` of the source `name` implies, completed by `helpers`.
 *
 * CNH: as quoted; else CNY times the basis CNH/CNY of the overlay, when that is within 2 %; else
 * CNY itself, and the vector says so. Errors: SourceError INCOMPLETE, naming what is missing: a
 * vector is whole or it is none.
 */
export function vectorOf(name: string, quote: Quote, helpers: Helpers): RateVector {
  const values = new Map(quote.perEur)
  const used = [name]
  if (helpers.bridge !== null && isNear(quote, helpers.bridge.quote)) {
    if (addBridged(values, helpers.bridge.quote)) used.push(helpers.bridge.name)
  }
  const cny = values.get('CNY') ?? null
  let cnhIsCny = false
  if (!values.has('CNH') && cny !== null) {
    const basis = basisOf(quote, helpers.overlay?.quote ?? null)
    cnhIsCny = basis === null
    values.set('CNH', cny * (basis ?? 1))
    if (basis !== null && helpers.overlay !== null) used.push(helpers.overlay.name)
  }
  return {
    source: used.join('+'),
    origin: quote.origin,
    asOf: quote.asOf,
    asOfMs: quote.asOfMs,
    perEur: whole(values),
    cny,
    cnhIsCny,
  }
}

function isNear(quote: Quote, other: Quote): boolean {
  return Math.abs(quote.asOfMs - other.asOfMs) <= HELPER_AGE_MAX_MS
}

/** Adds what `values` lack from `bridge`; whether there was anything to add. */
function addBridged(values: Map<string, number>, bridge: Quote): boolean {
  const dollar = values.get('USD')
  const bridgeDollar = bridge.perEur.get('USD')
  let added = false
  for (const [code, value] of bridge.perEur) {
    if (values.has(code)) continue
    const byDollar = BRIDGED_BY_DOLLAR.has(code) && dollar !== undefined
    values.set(
      code,
      byDollar && bridgeDollar !== undefined ? (value * dollar) / bridgeDollar : value,
    )
    added = true
  }
  return added
}

function basisOf(quote: Quote, overlay: Quote | null): number | null {
  if (overlay === null || !isNear(quote, overlay)) return null
  const cnh = overlay.perEur.get('CNH')
  const cny = overlay.perEur.get('CNY')
  if (cnh === undefined || cny === undefined) return null
  const basis = cnh / cny
  return Math.abs(basis - 1) <= CNH_BASIS_MAX ? basis : null
}

function whole(values: ReadonlyMap<string, number>): PerEur {
  const missing = CURRENCIES.filter((currency) => !values.has(currency))
  if (missing.length > 0) throw new SourceError('INCOMPLETE', `it lacks ${missing.join(', ')}`)
  const of = (currency: Currency): number => values.get(currency) ?? Number.NaN
  return {
    USD: of('USD'),
    JPY: of('JPY'),
    AUD: of('AUD'),
    GBP: of('GBP'),
    NZD: of('NZD'),
    CAD: of('CAD'),
    CHF: of('CHF'),
    HKD: of('HKD'),
    ZAR: of('ZAR'),
    TRY: of('TRY'),
    CNH: of('CNH'),
    NOK: of('NOK'),
    SEK: of('SEK'),
    MXN: of('MXN'),
  }
}

/** A vector as it is kept and exchanged: `docs/reference/rates.md`, “Vector files”. */
export interface VectorDocument {
  readonly source: string
  readonly asOf: string
  /** Units per euro; `CNY` instead of `CNH` where only the onshore rate is known. */
  readonly perEur: Readonly<Record<string, number>>
}

/** The document of `vector`; reading it back gives the same rates and says the same of CNH. */
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
