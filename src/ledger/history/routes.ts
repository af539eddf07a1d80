import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { parsePosition, positionText } from '../../chain/index.ts'
import { type HttpApp, HttpRefusal } from '../../http/index.ts'
import type { StoredRevision } from '../../storage/index.ts'
import { Failure, ItemParams } from '../schemas.ts'
import { type HistoryRange, type ItemHistory, revisionJson } from './item-history.ts'
import { HistoryQuery, HistoryReply } from './schemas.ts'

/** Mounts `GET /api/{db}/{id}/history` on `app`. */
export function historyRoutes(app: HttpApp, history: ItemHistory): void {
  app.get(
    '/api/:db/:id/history',
    {
      schema: {
        tags: ['items'],
        summary: 'List all that became of one item, also of a deleted one',
        params: ItemParams,
        querystring: HistoryQuery,
        response: { 200: HistoryReply, '4xx': Failure, '5xx': Failure },
      },
      config: { scope: 'db:{db}:read' },
    },
    async ({ params: { db, id }, query: { limit = 0, cursor, order } }, reply) => {
      const range = { limit, newestFirst: order === 'newest', after: positionFrom(cursor) }
      if (!Number.isSafeInteger(limit)) {
        throw new HttpRefusal(400, 'REQUEST_INVALID', 'limit is an integer')
      }
      const pages = await history.list(db, id, range)
      return sendText(reply, historyReply(pages, range))
    },
  )
}

function sendText(reply: FastifyReply, text: Readable): FastifyReply {
  return reply.type('application/json; charset=utf-8').send(text)
}

function positionFrom(cursor: string | undefined): number | null {
  if (cursor === undefined) return null
  const position = parsePosition(cursor)
  if (position !== null) return position
  throw new HttpRefusal(400, 'REQUEST_INVALID', 'cursor is a position, <height>.<index>')
}

/** Sent as it is read: one page is in memory at a time, and a slow client slows the reading down. */
function historyReply(pages: AsyncIterable<StoredRevision[]>, { limit }: HistoryRange): Readable {
  async function* parts(): AsyncGenerator<string> {
    let opening = '{"status":true,"history":['
    let sent = 0
    let last: StoredRevision | undefined
    let more = false
    for await (const page of pages) {
      for (const revision of page) {
        if (sent === limit && limit > 0) {
          more = true
          break
        }
        yield opening + revisionJson(revision)
        opening = ','
        last = revision
        sent += 1
      }
    }
    const cursor = more && last !== undefined ? `"${positionText(last.position)}"` : 'null'
    yield `${opening === ',' ? '' : opening}],"limit":${limit},"cursor":${cursor}}`
  }
  return Readable.from(parts(), { objectMode: false, highWaterMark: 65_536 })
}
