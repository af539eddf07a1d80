import { requireOnlyWhere } from '../../filter/index.ts'
import { type AggregationQuery, aggregationQuery, LedgerError } from '../../ledger/core.ts'
import { type Model, propertyAt, type TypeDeclaration } from '../model/model.ts'
import { resourceFilter } from './listing.ts'
import type { ParameterTexts } from './query.ts'

/**
 * Parses the aggregation of instances of `type` in the query of a request. A repeated parameter is a list.
 * Errors: FilterError; LedgerError (AGGREGATION_INVALID), also for a path that the type does not have.
 */
export function parseAggregation(
  query: ParameterTexts,
  model: Model,
  type: TypeDeclaration,
): AggregationQuery {
  const where = requireOnlyWhere(resourceFilter(query, model, type))
  const list = (name: string) =>
    Object.hasOwn(query, name) ? [query[name]].flat().join(',') : undefined
  const aggregation = aggregationQuery(where, {
    ...{ group: list('group'), sum: list('sum'), avg: list('avg') },
    ...{ min: list('min'), max: list('max') },
  })
  const paths = [...aggregation.group, ...aggregation.functions.map(({ path }) => path)]
  const unknown = paths.find((path) => propertyAt(model, type, path) === null)
  if (unknown === undefined) return aggregation
  const message = `${type.name} has no property ${unknown.join('.')}`
  throw new LedgerError('AGGREGATION_INVALID', message)
}
