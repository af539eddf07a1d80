import { CURRENCIES } from '../currencies.ts'
import { SourceError } from '../source-error.ts'
import { type Quote, quoteOf } from '../vector.ts'
import { type Get, HttpSource } from './http-source.ts'
import { jsonObjectOf, numbersIn, objectIn } from './json-body.ts'
import type { RateSource } from './source.ts'

/** Where Open Exchange Rates serves the latest rates per dollar; the key is added as `app_id`. */
export const OPEN_EXCHANGE_RATES_URL = 'https://openexchangerates.org/api/latest.json'

/** Hourly, which its free plan allows all month. */
const REFRESH_MS = 3_600_000

/** Open Exchange Rates, with the operator's own key. */
export function openExchangeRatesSource(
  url: URL,
  appId: string,
  get: Get,
  now: () => number,
): RateSource {
  const keyed = new URL(url)
  keyed.searchParams.set('app_id', appId)
  const options = {
    name: 'openexchangerates',
    family: 'openexchangerates',
    refreshMs: REFRESH_MS,
    urls: [keyed],
    accept: 'application/json',
    parse: parseOpenExchangeRates,
  }
  return new HttpSource(options, get, now)
}

/** The quote in `{timestamp, base: "USD", rates}`, turned from dollars to euros. Errors: SourceError. */
export function parseOpenExchangeRates(text: string): Quote {
  const body = jsonObjectOf(text)
  const timestamp = body.timestamp
  if (body.base !== 'USD') throw new SourceError('MALFORMED', 'the base is not USD')
  if (typeof timestamp !== 'number' || !Number.isSafeInteger(timestamp) || timestamp > 1e11) {
    throw new SourceError('DATE_INVALID', 'the timestamp is no number of seconds')
  }
  const rates = objectIn(body, 'rates')
  const euro = rates.EUR
  if (typeof euro !== 'number' || !(euro > 0)) {
    throw new SourceError('VALUE_INVALID', 'EUR is not a positive number')
  }
  const perDollar = numbersIn(rates, [...CURRENCIES, 'CNY'])
  const others = perDollar.filter(([code]) => code !== 'USD')
  return quoteOf(new Date(timestamp * 1_000).toISOString().replace('.000Z', 'Z'), [
    ['USD', 1 / euro],
    ...others.map(([code, value]): [string, number] => [code, value / euro]),
  ])
}
