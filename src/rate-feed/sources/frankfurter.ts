import { SourceError } from '../source-error.ts'
import { type Quote, quoteOf } from '../vector.ts'
import { type Get, HttpSource } from './http-source.ts'
import { jsonObjectOf, numbersIn, objectIn, stringIn } from './json-body.ts'
import type { RateSource } from './source.ts'

/** What is asked of Frankfurter: it has the ECB's currencies, so CNY and not CNH. */
const SYMBOLS = 'USD,JPY,AUD,GBP,NZD,CAD,CHF,HKD,ZAR,TRY,CNY,NOK,SEK,MXN'

/** Where Frankfurter serves the latest rates per euro. */
export const FRANKFURTER_URL = `https://api.frankfurter.dev/v1/latest?base=EUR&symbols=${SYMBOLS}`

const REFRESH_MS = 30 * 60_000

/** Frankfurter, which repeats the European Central Bank's rates: no witness of its own. */
export function frankfurterSource(url: URL, get: Get, now: () => number): RateSource {
  const options = {
    name: 'frankfurter',
    family: 'ecb',
    refreshMs: REFRESH_MS,
    urls: [url],
    accept: 'application/json',
    parse: parseFrankfurter,
  }
  return new HttpSource(options, get, now)
}

/** The quote in `{base, date, rates}`. Errors: SourceError. */
export function parseFrankfurter(text: string): Quote {
  const body = jsonObjectOf(text)
  if (body.base !== 'EUR') throw new SourceError('MALFORMED', 'the base is not EUR')
  return quoteOf(stringIn(body, 'date'), numbersIn(objectIn(body, 'rates'), SYMBOLS.split(',')))
}
