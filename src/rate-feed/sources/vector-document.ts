import { createHash } from 'node:crypto'
import { canonicalJson } from '../../base/canonical-json.ts'
import { CURRENCIES } from '../currencies.ts'
import { SourceError } from '../source-error.ts'
import { type Quote, quoteOf, type VectorDocument } from '../vector.ts'
import { jsonObjectOf, numbersIn, objectIn, stringIn } from './json-body.ts'

const ORIGIN = /^[\w .+:-]{1,64}$/

/**
 * The quote in a vector document `{source, asOf, perEur}`; where it has a `sha256`, that must fit.
 *
 * Errors: SourceError. Source: `docs/reference/rates.md`, “Vector files”.
 */
export function parseVectorDocument(text: string): Quote {
  const body = jsonObjectOf(text)
  const source = stringIn(body, 'source')
  const asOf = stringIn(body, 'asOf')
  // Sent in a header and a log line, so it is held to plain characters.
  if (!ORIGIN.test(source)) throw new SourceError('MALFORMED', 'source has odd characters')
  const perEur = objectIn(body, 'perEur')
  const sha256 = body.sha256
  if (sha256 !== undefined && sha256 !== digestOf(canonicalJson({ source, asOf, perEur }))) {
    throw new SourceError('CHECKSUM_WRONG', 'the sha256 is of another vector')
  }
  return quoteOf(asOf, numbersIn(perEur, [...CURRENCIES, 'CNY']), source)
}

/** The text of `document` as a file, with its checksum. */
export function textOfVectorDocument({ source, asOf, perEur }: VectorDocument): string {
  const sha256 = digestOf(canonicalJson({ source, asOf, perEur: { ...perEur } }))
  return `${JSON.stringify({ source, asOf, perEur, sha256 }, null, 2)}\n`
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
