import { SourceError } from '../source-error.ts'
import { type Quote, quoteOf } from '../vector.ts'
import { type Get, HttpSource } from './http-source.ts'
import type { RateSource } from './source.ts'

/** Where the reference rates of the European Central Bank are. */
export const ECB_URL = 'https://www.ecb.europa.eu/stats/eurofxref/eurofxref-daily.xml'

const REFRESH_MS = 30 * 60_000
const TIME = /<Cube\s{1,64}time=(["'])([^"'<>]{1,32})\1/g
const RATE =
  /<Cube\s{1,64}currency=(["'])([A-Z]{3})\1\s{1,64}rate=(["'])([^"'<>]{0,32})\3\s{0,64}\/>/g
const DECIMAL = /^\d{1,9}(?:\.\d{1,12})?$/

/** The reference rates of the European Central Bank, set once on each of its working days. */
export function ecbSource(url: URL, get: Get, now: () => number): RateSource {
  const options = {
    name: 'ecb',
    family: 'ecb',
    refreshMs: REFRESH_MS,
    urls: [url],
    accept: 'application/xml, text/xml',
    parse: parseEcb,
  }
  return new HttpSource(options, get, now)
}

/**
 * The quote in the ECB's daily file, single or double quoted.
 *
 * The file is a flat list, so two bounded patterns read it; no XML parser is involved, and nothing
 * that would need one (a DTD, an entity, a comment, CDATA) is accepted. Errors: SourceError.
 */
export function parseEcb(text: string): Quote {
  if (text.includes('<!')) throw new SourceError('MALFORMED', 'the file declares more than rates')
  const times = [...text.matchAll(TIME)].map(([, , time = '']) => time)
  const [time] = times
  if (time === undefined || times.length !== 1) {
    throw new SourceError('MALFORMED', `the file has ${times.length} dates instead of one`)
  }
  const entries: [string, number][] = []
  for (const [, , code = '', , rate = ''] of text.matchAll(RATE)) {
    entries.push([code, DECIMAL.test(rate) ? Number(rate) : Number.NaN])
  }
  return quoteOf(time, entries)
}
