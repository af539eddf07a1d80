import { Type } from '../../base/shape.ts'
import { turn } from '../../base/turn.ts'
import { parsePosition } from '../../chain/index.ts'
import { type HttpApp, HttpRefusal } from '../../http/index.ts'
import type { ItemHistory } from '../read/item-history.ts'
import { historyReply, sendText } from './replies.ts'
import {
  authorship,
  Count,
  ItemParams,
  okReply,
  operation,
  POSITION_PATTERN,
  TokenQuery,
} from './schemas.ts'

const position = Type.String({
  pattern: '^(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)$',
  description: '`<height>.<index>` of an entry',
})

const HistoryQuery = Type.Object({
  ...TokenQuery.properties,
  limit: Type.Optional(Count('Maximum number of elements')),
  cursor: Type.Optional(
    Type.String({
      documentedPattern: POSITION_PATTERN,
      description: 'The `cursor` of the previous page',
    }),
  ),
  order: Type.Optional(
    Type.Enum(['oldest', 'newest'], { description: 'Revisions to list first; default `oldest`' }),
  ),
})

const HistoryReply = okReply({
  history: Type.Array(
    Type.Object({
      position,
      timestamp: Type.Integer({ description: 'Milliseconds since the Unix epoch' }),
      method: Type.String(),
      item: Type.Optional(
        Type.Object(
          {},
          {
            additionalProperties: true,
            description: 'The item at that time; absent if it was deleted or erased',
          },
        ),
      ),
      erased: Type.Optional(
        Type.Literal(true, { description: 'Present if the content of the revision was erased' }),
      ),
      ...authorship,
    }),
  ),
  limit: Type.Integer(),
  cursor: Type.Union([position, Type.Null()], {
    description: 'Cursor of the next page; null on the last page',
  }),
})

export function historyRoutes(app: HttpApp, history: ItemHistory): void {
  app.get(
    '/api/:db/:id/history',
    operation('items', 'listRevisions', {
      summary: 'List the history of one item, even if it is deleted',
      params: ItemParams,
      query: HistoryQuery,
      reply: HistoryReply,
      config: { scope: 'db:{db}:read', lasting: true },
    }),
    async ({ params: { db, id }, query: { limit = 0, cursor, order } }, reply) => {
      const range = { limit, newestFirst: order === 'newest', after: parseCursor(cursor) }
      if (!Number.isSafeInteger(limit)) {
        throw new HttpRefusal(400, 'REQUEST_INVALID', 'limit must be an integer')
      }
      await turn(true)
      const pages = await history.list(db, id, range)
      return sendText(reply, historyReply(pages, limit))
    },
  )
}

function parseCursor(cursor: string | undefined): number | null {
  if (cursor === undefined) return null
  const position = parsePosition(cursor)
  if (position !== null) return position
  throw new HttpRefusal(400, 'REQUEST_INVALID', 'cursor must be a position, <height>.<index>')
}
