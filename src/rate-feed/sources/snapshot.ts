import { type Quote, quoteOf } from '../vector.ts'

/**
 * The vector that comes with the program, for a start without any network.
 *
 * Source: ECB statistics, reference rates of 6 October 2026. Crosses made of them are computed.
 */
export const SNAPSHOT: Quote = quoteOf(
  '2026-10-06',
  [
    ['USD', 1.1269],
    ['JPY', 178.15],
    ['GBP', 0.8488],
    ['SEK', 11.2425],
    ['CHF', 0.9359],
    ['NOK', 10.778],
    ['TRY', 55.4196],
    ['AUD', 1.614],
    ['CAD', 1.6058],
    ['CNY', 7.5554],
    ['HKD', 8.8438],
    ['MXN', 20.2217],
    ['NZD', 2.0061],
    ['ZAR', 18.5829],
  ],
  'ecb',
)
