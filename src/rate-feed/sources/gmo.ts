import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { SourceError } from '../source-error.ts'
import { momentOf, type Quote, quoteOf } from '../vector.ts'
import { type Get, HttpSource } from './http-source.ts'
import { jsonObjectOf, stringIn } from './json-body.ts'
import type { RateSource } from './source.ts'

/** Where GMO Coin's foreign exchange serves its public ticker. */
export const GMO_URL = 'https://forex-api.coin.z.com/public/v1/ticker'

const REFRESH_MS = 60_000
/** How long a closed market is left alone. */
const CLOSED_MS = 10 * 60_000
/** A wider spread than this is a broken book, not a price. */
const SPREAD_MAX = 0.05
const SYMBOLS_MAX = 200
const DECIMAL = /^\d{1,9}(?:\.\d{1,12})?$/
/** Traded against the yen; every vector value is the euro's yen divided by the currency's. */
const BY_YEN = ['USD', 'AUD', 'GBP', 'NZD', 'CAD', 'CHF', 'ZAR', 'TRY', 'NOK', 'SEK', 'MXN', 'HKD']

/** GMO Coin's live prices; what it does not trade is bridged over another source. */
export function gmoSource(url: URL, get: Get, now: () => number): RateSource {
  const options = {
    name: 'gmo',
    family: 'gmo',
    refreshMs: REFRESH_MS,
    partial: true,
    urls: [url],
    accept: 'application/json',
    parse: parseGmo,
  }
  return new HttpSource(options, get, now)
}

/**
 * The quote in `{status: 0, data: [{symbol, ask, bid, timestamp, status}]}`: the middle of bid and
 * ask, as of the oldest price used.
 *
 * Errors: SourceError; MARKET_CLOSED when a price that is needed is not `OPEN`, as at weekends.
 */
export function parseGmo(text: string): Quote {
  const body = jsonObjectOf(text)
  if (body.status !== 0) throw new SourceError('REFUSED', 'the body says that the request failed')
  const tickers = tickersOf(body.data)
  const euro = priceOf(tickers, 'EUR_JPY')
  if (euro === null) throw new SourceError('INCOMPLETE', 'it lacks EUR_JPY')
  let oldestMs = euro.timeMs
  const entries: [string, number][] = [['JPY', euro.middle]]
  for (const code of BY_YEN) {
    const price = priceOf(tickers, `${code}_JPY`)
    if (price === null) continue
    entries.push([code, euro.middle / price.middle])
    oldestMs = Math.min(oldestMs, price.timeMs)
  }
  if (!entries.some(([code]) => code === 'USD')) {
    throw new SourceError('INCOMPLETE', 'it lacks USD_JPY')
  }
  return quoteOf(new Date(oldestMs).toISOString().replace(/\.\d+Z$/, 'Z'), entries)
}

function tickersOf(data: Json | undefined): ReadonlyMap<string, JsonObject> {
  if (!Array.isArray(data) || data.length > SYMBOLS_MAX) {
    throw new SourceError('MALFORMED', 'data is not a list of prices')
  }
  const tickers = new Map<string, JsonObject>()
  for (const ticker of data) {
    if (!isJsonObject(ticker)) throw new SourceError('MALFORMED', 'a price is not an object')
    tickers.set(stringIn(ticker, 'symbol'), ticker)
  }
  return tickers
}

function priceOf(
  tickers: ReadonlyMap<string, JsonObject>,
  symbol: string,
): { middle: number; timeMs: number } | null {
  const ticker = tickers.get(symbol)
  if (ticker === undefined) return null
  if (ticker.status !== 'OPEN') {
    throw new SourceError('MARKET_CLOSED', `${symbol} is not open`, { retryAfterMs: CLOSED_MS })
  }
  const ask = decimalIn(ticker, symbol, 'ask')
  const bid = decimalIn(ticker, symbol, 'bid')
  if (!(bid > 0 && ask >= bid && ask - bid <= bid * SPREAD_MAX)) {
    throw new SourceError('VALUE_INVALID', `${symbol} has bid ${bid} and ask ${ask}`)
  }
  const timeMs = momentOf(stringIn(ticker, 'timestamp'))
  if (timeMs === null) throw new SourceError('DATE_INVALID', `${symbol} has no valid timestamp`)
  return { middle: (ask + bid) / 2, timeMs }
}

function decimalIn(ticker: JsonObject, symbol: string, name: string): number {
  const text = stringIn(ticker, name)
  if (!DECIMAL.test(text)) throw new SourceError('VALUE_INVALID', `${name} of ${symbol} is ${text}`)
  return Number(text)
}
