import { constantFrom, double, assert as fcAssert, property, record } from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  CURRENCIES,
  completeUnits,
  computeRates,
  createQuote,
  PAIRS,
  type PerEur,
  SNAPSHOT,
} from './rates.ts'

/** The expected table, computed by hand from published reference rates. */
const GOLDEN = {
  USDJPY: 158.089,
  EURJPY: 178.15,
  EURUSD: 1.1269,
  AUDJPY: 110.378,
  GBPJPY: 209.885,
  NZDJPY: 88.804,
  CADJPY: 110.942,
  CHFJPY: 190.352,
  HKDJPY: 20.144,
  GBPUSD: 1.32764,
  USDCHF: 0.83051,
  ZARJPY: 9.587,
  AUDUSD: 0.6982,
  NZDUSD: 0.56174,
  EURAUD: 1.614,
  TRYJPY: 3.215,
  CNHJPY: 23.579,
  NOKJPY: 16.529,
  SEKJPY: 15.846,
  MXNJPY: 8.81,
}

const value = double({ min: 1e-4, max: 1e6, noNaN: true })
const anyPerEur = record(
  Object.fromEntries(CURRENCIES.map((currency) => [currency, value])) as Record<
    keyof PerEur,
    typeof value
  >,
)

describe('computeRates', () => {
  it('computes the expected rates from the built-in set, in the documented order', () => {
    const rates = computeRates(completeUnits(SNAPSHOT))
    expect(JSON.stringify(rates)).toBe(JSON.stringify(GOLDEN))
    expect(Object.keys(rates)).toEqual(PAIRS)
  })

  it('rounds each rate once, from values that were not rounded before', () => {
    void fcAssert(
      property(anyPerEur, constantFrom(...PAIRS), (perEur: PerEur, pair) => {
        const units = new Map<string, number>([['EUR', 1], ...Object.entries(perEur)])
        const base = units.get(pair.slice(0, 3)) ?? Number.NaN
        const quote = units.get(pair.slice(3)) ?? Number.NaN
        const decimals = pair.endsWith('JPY') ? 3 : 5
        expect(computeRates(perEur)[pair]).toBe(Number((quote / base).toFixed(decimals)))
      }),
    )
  })
})

describe('CNH', () => {
  const { CNY = 0, ...others } = SNAPSHOT.perEur
  it.each([
    ['is CNY if the source does not quote CNH', { CNY }, CNY],
    ['has its own rate if the source quotes both', { CNY, CNH: CNY * 1.01 }, CNY * 1.01],
    ['has its own rate if the source does not quote CNY', { CNH: CNY * 1.02 }, CNY * 1.02],
  ])('CNH %s', (_name, renminbi, cnh) => {
    const quote = createQuote('2026-10-07', Object.entries({ ...others, ...renminbi }))
    expect(completeUnits(quote).CNH).toBe(cnh)
    expect(quote.perEur).toEqual({ ...others, ...renminbi })
  })
})
