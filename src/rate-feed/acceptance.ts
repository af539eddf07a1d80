import { CURRENCIES, type Currency, type PerEur } from './currencies.ts'

// How far a value may move from the last good one before a second source must agree, as fractions.
// Source: docs/decisions/0032-believing-a-source.md.
const BAND = 0.1
/** Added for each day between the two vectors. */
const BAND_PER_DAY = 0.01
const BAND_MAX = 0.2
/** Currencies that have moved by BAND_MAX in a day. */
const WILD: ReadonlySet<Currency> = new Set(['TRY', 'ZAR', 'MXN'])
/** Two independent sources that differ by less than this say the same. */
const AGREEMENT_MAX = 0.01
const DAY_MS = 86_400_000

/** What the rules look at in a vector. */
export interface Dated {
  readonly asOfMs: number
  readonly perEur: PerEur
}

/** The first currency of `candidate` outside the band around `reference`, or null. */
export function outOfBand(
  candidate: Dated,
  reference: Dated,
): { currency: Currency; value: number; was: number } | null {
  const days = Math.abs(candidate.asOfMs - reference.asOfMs) / DAY_MS
  for (const currency of CURRENCIES) {
    const value = candidate.perEur[currency]
    const was = reference.perEur[currency]
    const width = WILD.has(currency) ? BAND_MAX : Math.min(BAND + BAND_PER_DAY * days, BAND_MAX)
    if (moved(value, was) > width) return { currency, value, was }
  }
  return null
}

/** Whether two vectors say the same of every currency, within one percent. */
export function agree(left: Dated, right: Dated): boolean {
  return CURRENCIES.every(
    (currency) => moved(left.perEur[currency], right.perEur[currency]) <= AGREEMENT_MAX,
  )
}

/** Whether two vectors hold the same numbers. */
export function sameValues(left: Dated, right: Dated): boolean {
  return CURRENCIES.every((currency) => left.perEur[currency] === right.perEur[currency])
}

/** How far apart two positive numbers are, the same in both directions: 0.1 is ten percent. */
function moved(value: number, was: number): number {
  return Math.max(value / was, was / value) - 1
}
