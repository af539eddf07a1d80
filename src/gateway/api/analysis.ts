import type { FastifyReply } from 'fastify'
import { isoTime } from '../../base/iso-time.ts'
import { disconnection, HttpRefusal } from '../../http/index.ts'
import { parsePosition, positionText, type TypeDeclaration } from '../../network/index.ts'
import { type NetworkRequest, requireMethod } from './resources.ts'

/** Maximum revisions in a reply, and their number without the parameter `limit`. */
const REVISIONS_MAX = 1_000
const REVISIONS_DEFAULT = 100

/** Parameters of an aggregation, apart from `filter`. */
const AGGREGATION_PARAMETERS = ['count', 'group', 'sum', 'avg', 'min', 'max']

/**
 * Whether a request for the resource `id` is an aggregation. Without a parameter of an aggregation, the request concerns
 * the resource with the id `aggregate`, so that every resource has a path.
 */
export function isAggregation({ request, query }: NetworkRequest, id: string): boolean {
  const isRead = request.method === 'GET' || request.method === 'HEAD'
  return isRead && id === 'aggregate' && AGGREGATION_PARAMETERS.some((name) => name in query)
}

export async function answerAggregation(
  { reply, network, caller, query }: NetworkRequest,
  type: TypeDeclaration,
): Promise<FastifyReply> {
  return reply.send(await network.aggregate(type, query, caller, disconnection(reply)))
}

export async function answerHistory(
  { request, reply, network, caller, query }: NetworkRequest,
  type: TypeDeclaration,
  id: string,
): Promise<FastifyReply> {
  requireMethod(request, ['GET', 'HEAD'])
  const { limit = `${REVISIONS_DEFAULT}`, order = 'oldest', after } = query
  if (order !== 'oldest' && order !== 'newest') throw invalid('order must be oldest or newest')
  const range = {
    limit: requireLimit(limit),
    newestFirst: order === 'newest',
    after: after === undefined ? null : requireRevision(after),
  }
  const history = await network.history(type, id, range, caller, disconnection(reply))
  return reply.send(
    history.map(({ position, timestamp, kind, transaction, participant }) => ({
      revision: positionText(position),
      timestamp: isoTime(timestamp),
      change: kind,
      transaction,
      participant,
    })),
  )
}

function requireLimit(given: unknown): number {
  const limit = typeof given === 'string' && /^\d{1,4}$/.test(given) ? Number(given) : 0
  if (limit >= 1 && limit <= REVISIONS_MAX) return limit
  throw invalid(`limit must be an integer from 1 to ${REVISIONS_MAX}`)
}

function requireRevision(given: unknown): number {
  const position = typeof given === 'string' ? parsePosition(given) : null
  if (position !== null) return position
  throw invalid('after must be the revision of an element, <height>.<index>')
}

function invalid(message: string): HttpRefusal {
  return new HttpRefusal(400, 'REQUEST_INVALID', message)
}
