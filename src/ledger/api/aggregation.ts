import { Type } from '../../base/shape.ts'
import { FILTER_PARAMETERS, parseFilter, requireOnlyWhere } from '../../filter/index.ts'
import { disconnection, type HttpApp } from '../../http/index.ts'
import { requireScope } from '../../tokens/index.ts'
import type { LedgerService } from '../node/service.ts'
import { AGGREGATION_LIMITS, aggregationQuery } from '../read/aggregation.ts'
import { requireDatabase } from '../read/pages.ts'
import { At, AtReply, findSameReply, requireState } from './as-of.ts'
import { sendText } from './replies.ts'
import { okReply, operation, TokenQuery } from './schemas.ts'

const { groups, groupPaths, valuePaths } = AGGREGATION_LIMITS
const pathsParameter = (description: string) =>
  Type.Optional(Type.String({ description, examples: ['price'] }))

const AggregationParameters = Type.Object({
  ...TokenQuery.properties,
  db: Type.String({ description: 'Name of the database' }),
  group: Type.Optional(
    Type.String({
      description: `Paths of up to ${groupPaths} members, separated by commas; items with equal values form a group`,
      examples: ['kind'],
    }),
  ),
  sum: pathsParameter(
    `Paths of members to add up, separated by commas; at most ${valuePaths} in sum, avg, min and max together`,
  ),
  avg: pathsParameter('Paths of members whose average is computed'),
  min: pathsParameter('Paths of members whose smallest number or string is returned'),
  max: pathsParameter('Paths of members whose greatest number or string is returned'),
  filter: Type.Optional(
    Type.String({
      ...FILTER_PARAMETERS.filter,
      description: 'Filter that selects the items; only `where` is allowed',
    }),
  ),
  at: At,
})

const scalar = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()])
const valuesByPath = (value: object) => Type.Object({}, { additionalProperties: value })
const number = Type.Union([Type.Number(), Type.Null()])
const extreme = Type.Union([Type.Number(), Type.String(), Type.Null()])

const AggregationReply = okReply({
  groups: Type.Array(
    Type.Object({
      group: valuesByPath(scalar),
      count: Type.Integer(),
      sum: Type.Optional(valuesByPath(number)),
      avg: Type.Optional(valuesByPath(number)),
      min: Type.Optional(valuesByPath(extreme)),
      max: Type.Optional(valuesByPath(extreme)),
    }),
    { description: `At most ${groups} groups, in the order of their values` },
  ),
  height: Type.Integer({ description: 'Height of the newest block when the aggregation started' }),
  consistent: Type.Boolean({
    description:
      'True if no block was added during the aggregation; then the reply is exact for `height`',
  }),
  at: AtReply,
})

/**
 * Mounts the route that aggregates items. Its path starts with `/api/config`, because no database can be called
 * `config`. A path below `/api/{db}` would hide the item whose id is the next path segment.
 */
export function aggregationRoutes(app: HttpApp, ledger: LedgerService): void {
  app.get(
    '/api/config/aggregate',
    operation('items', 'aggregateItems', {
      summary: 'Count items and compute sums, averages and extremes, by up to two members',
      query: AggregationParameters,
      reply: AggregationReply,
      config: { scope: 'token' },
    }),
    async ({ caller, query, headers }, reply) => {
      const { db, at, ...lists } = query
      requireScope(caller, { db, level: 'read' })
      const asOf = await requireState(ledger, at, reply)
      if (asOf !== null) await requireDatabase(ledger.store, db, asOf)
      const same = await findSameReply(ledger, reply, headers, asOf)
      if (same !== null) return same
      const aggregation = aggregationQuery(requireOnlyWhere(parseFilter(query)), lists)
      const result = await ledger.read.aggregate(db, aggregation, disconnection(reply), asOf)
      const end = asOf === null ? {} : { at: asOf.height }
      return sendText(reply, JSON.stringify({ status: true, ...result, ...end }))
    },
  )
}
