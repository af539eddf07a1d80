import { CURRENCIES } from '../currencies.ts'
import { type Quote, quoteOf } from '../vector.ts'
import { type Get, HttpSource } from './http-source.ts'
import { jsonObjectOf, numbersIn, objectIn, stringIn } from './json-body.ts'
import type { RateSource } from './source.ts'

/** Where the collected rates per euro are served, and the fallback its authors name. */
export const EXCHANGE_API_URLS: readonly string[] = [
  'https://cdn.jsdelivr.net/npm/@fawazahmed0/currency-api@latest/v1/currencies/eur.min.json',
  'https://latest.currency-api.pages.dev/v1/currencies/eur.min.json',
]

const REFRESH_MS = 6 * 3_600_000
const CODES = [...CURRENCIES, 'CNY'].map((code) => code.toLowerCase())

/** Daily rates collected by volunteers: the only free source of CNH, and not always right. */
export function exchangeApiSource(urls: readonly URL[], get: Get, now: () => number): RateSource {
  const options = {
    name: 'exchange-api',
    family: 'exchange-api',
    refreshMs: REFRESH_MS,
    urls,
    accept: 'application/json',
    parse: parseExchangeApi,
  }
  return new HttpSource(options, get, now)
}

/** The quote in `{date, eur: {usd, …}}`. Errors: SourceError. */
export function parseExchangeApi(text: string): Quote {
  const body = jsonObjectOf(text)
  const rates = numbersIn(objectIn(body, 'eur'), CODES)
  return quoteOf(
    stringIn(body, 'date'),
    rates.map(([code, value]) => [code.toUpperCase(), value]),
  )
}
