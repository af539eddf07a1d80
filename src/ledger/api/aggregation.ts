import { Type } from '../../base/shape.ts'
import {
  FILTER_PARAMETERS,
  type Filter,
  FilterError,
  filterOf,
  type Where,
} from '../../filter/index.ts'
import type { HttpApp } from '../../http/index.ts'
import { requireScope } from '../../tokens/index.ts'
import { AGGREGATION_LIMITS, aggregationQuery } from '../aggregation/aggregation.ts'
import type { LedgerService } from '../service.ts'
import { disconnection, sendText } from './replies.ts'
import { failures, okReply, TokenQuery } from './schemas.ts'

const { groups, groupPaths, valuePaths } = AGGREGATION_LIMITS
const paths = (description: string) =>
  Type.Optional(Type.String({ description, examples: ['price'] }))

const AggregationParameters = Type.Object({
  ...TokenQuery.properties,
  db: Type.String({ description: 'Name of the database' }),
  group: Type.Optional(
    Type.String({
      description: `Paths of at most ${groupPaths} members, with commas; items with equal values form a group`,
      examples: ['kind'],
    }),
  ),
  sum: paths(
    `Paths of members to add up, with commas; at most ${valuePaths} paths with avg, min and max`,
  ),
  avg: paths('Paths of members whose average is computed'),
  min: paths('Paths of members whose least number or string is found'),
  max: paths('Paths of members whose greatest number or string is found'),
  filter: Type.Optional(
    Type.String({ ...FILTER_PARAMETERS.filter, description: 'Selects items: only `where`' }),
  ),
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
    { description: `In the order of their values; at most ${groups}` },
  ),
  height: Type.Integer({ description: 'Height of the newest block when reading began' }),
  consistent: Type.Boolean({
    description:
      'Whether no block was added during reading, so that the reply is exact for `height`',
  }),
})

/**
 * Mounts the aggregation of items. Its path is below `config`, because no database can have this name. A path below
 * `/api/{db}` could hide an item, which may have any id.
 */
export function aggregationRoutes(app: HttpApp, ledger: LedgerService): void {
  app.get(
    '/api/config/aggregate',
    {
      schema: {
        tags: ['items'],
        operationId: 'aggregateItems',
        summary: 'Count items and compute sums, averages and extremes, by up to two members',
        querystring: AggregationParameters,
        response: { 200: AggregationReply, ...failures },
      },
      config: { scope: 'token' },
    },
    async ({ caller, query }, reply) => {
      const { db, ...lists } = query
      requireScope(caller, { db, level: 'read' })
      const aggregation = aggregationQuery(whereOf(filterOf(query)), lists)
      const result = await ledger.aggregate(db, aggregation, disconnection(reply))
      return sendText(reply, JSON.stringify({ status: true, ...result }))
    },
  )
}

/** Errors: FILTER_UNKNOWN for a member other than `where`. */
function whereOf(filter: Filter | null): Where | null {
  if (filter === null) return null
  const { where, order, limit, offset, fields } = filter
  const other = Object.entries({ limit, offset, fields }).find(([, value]) => value !== null)
  const name = order.length > 0 ? 'order' : other?.[0]
  if (name === undefined) return where
  throw new FilterError(
    'FILTER_UNKNOWN',
    [name],
    'the filter of an aggregation may contain only where',
  )
}
