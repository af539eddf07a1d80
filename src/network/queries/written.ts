import { NetworkError } from '../errors.ts'
import { parseQueries } from '../language/query-parser.ts'
import { Findings } from '../language/source.ts'
import type { Model } from '../model/model.ts'
import { checkQueries, type NamedQuery } from './check.ts'

/** Characters of a query that a processor writes itself. */
const TEXT_LENGTH_MAX = 10_000

/** The query whose statement is `text`: `SELECT …`. Errors: PARAMETER_INVALID with what is wrong. */
export function writtenQuery(text: string, model: Model): NamedQuery {
  if (text.length > TEXT_LENGTH_MAX) {
    throw new NetworkError('PARAMETER_INVALID', `a query has ${TEXT_LENGTH_MAX} characters at most`)
  }
  const file = { path: 'query', text: `query written { statement:\n${text}\n}` }
  const findings = new Findings()
  const query = checkQueries(parseQueries(file, findings), model, findings, () => file).get(
    'written',
  )
  if (query !== undefined && findings.clean) return query
  const [first] = findings.sorted()
  const message = `the query is wrong: ${first?.message ?? 'it selects nothing'}`
  throw new NetworkError('PARAMETER_INVALID', message)
}
