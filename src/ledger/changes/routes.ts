import { parsePosition } from '../../chain/index.ts'
import type { HttpApp } from '../../http/index.ts'
import { LedgerError } from '../errors.ts'
import { serverIdFrom } from '../routes.ts'
import { Failure } from '../schemas.ts'
import type { LedgerService } from '../service.ts'
import { databaseFilter } from './database-filter.ts'
import { sendChanges, sendHead } from './event-stream.ts'
import type { ChangesStart } from './feed.ts'
import { ChangesHeaders, ChangesParams, ChangesQuery, ChangesStream } from './schemas.ts'

/** Mounts `GET /api/ledgers/{serverid}/changes` on `app`; its clients are let go when `app` closes. */
export function changesRoutes(app: HttpApp, ledger: LedgerService): void {
  app.addHook('preClose', async () => ledger.feed.close())
  app.get(
    '/api/ledgers/:serverid/changes',
    {
      schema: {
        tags: ['ledger'],
        summary: 'Follow the entries of a chain as they are recorded (server-sent events)',
        params: ChangesParams,
        querystring: ChangesQuery,
        headers: ChangesHeaders,
        response: {
          200: {
            description: 'Goes on until either side ends it',
            content: { 'text/event-stream': { schema: ChangesStream } },
          },
          '4xx': Failure,
          '5xx': Failure,
        },
      },
      // Of all databases, whichever the filter names: a chain is one thing.
      config: { scope: 'ledger:read', lasting: true },
    },
    async (request, reply) => {
      const { method, params, query, headers } = request
      const feed = ledger.feedOf(serverIdFrom(params.serverid))
      const filter = databaseFilter(query.db ?? [])
      // A browser that connects again asks for the same address, and says how far it came.
      const after = startFrom(headers['last-event-id'] || query.since || 'now')
      if (method === 'HEAD') await sendHead(feed, reply.raw, after)
      else {
        const onFailure = (error: Error) => request.reportFailure(error)
        await sendChanges(feed, reply.raw, after, filter, onFailure)
      }
      return reply.hijack()
    },
  )
}

function startFrom(text: string): ChangesStart {
  if (text === 'start' || text === 'now') return text
  const position = parsePosition(text)
  if (position !== null) return position
  throw new LedgerError('POSITION_INVALID', 'a position is <height>.<index>, `start` or `now`')
}
