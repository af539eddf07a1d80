/** The currencies that every vector holds: those of the twenty pairs, without the euro itself. */
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

/** One of `CURRENCIES`. `CNH` is the offshore renminbi; `CNY`, the onshore one, stands in for it. */
export type Currency = (typeof CURRENCIES)[number]

/** Units of each currency that one euro buys, unrounded. */
export type PerEur = Readonly<Record<Currency, number>>

/** The pairs, in the order of the reply. Source: specification, “R: rate feed response”. */
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

/** One of `PAIRS`. `ABCXYZ` is how many units of XYZ one unit of ABC equals. */
export type Pair = (typeof PAIRS)[number]

/** The rate of every pair, rounded for people: three decimals in yen, five otherwise. */
export type Rates = Readonly<Record<Pair, number>>

const DECIMALS_IN_YEN = 3
const DECIMALS = 5

/**
 * The twenty rates that `perEur` implies. Every cross is made of unrounded values and rounded once.
 *
 * Source: specification, “A value for pair ABCXYZ means one unit of ABC equals that many units of
 * XYZ”; the decimals are docs/decisions/0030-vector-and-crosses.md.
 */
export function ratesOf(perEur: PerEur): Rates {
  const cross = (base: Currency | 'EUR', quote: Currency): number => {
    const unrounded = perEur[quote] / (base === 'EUR' ? 1 : perEur[base])
    return Number(unrounded.toFixed(quote === 'JPY' ? DECIMALS_IN_YEN : DECIMALS))
  }
  return {
    USDJPY: cross('USD', 'JPY'),
    EURJPY: cross('EUR', 'JPY'),
    EURUSD: cross('EUR', 'USD'),
    AUDJPY: cross('AUD', 'JPY'),
    GBPJPY: cross('GBP', 'JPY'),
    NZDJPY: cross('NZD', 'JPY'),
    CADJPY: cross('CAD', 'JPY'),
    CHFJPY: cross('CHF', 'JPY'),
    HKDJPY: cross('HKD', 'JPY'),
    GBPUSD: cross('GBP', 'USD'),
    USDCHF: cross('USD', 'CHF'),
    ZARJPY: cross('ZAR', 'JPY'),
    AUDUSD: cross('AUD', 'USD'),
    NZDUSD: cross('NZD', 'USD'),
    EURAUD: cross('EUR', 'AUD'),
    TRYJPY: cross('TRY', 'JPY'),
    CNHJPY: cross('CNH', 'JPY'),
    NOKJPY: cross('NOK', 'JPY'),
    SEKJPY: cross('SEK', 'JPY'),
    MXNJPY: cross('MXN', 'JPY'),
  }
}
