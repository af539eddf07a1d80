import { Type } from '../../base/shape.ts'
import { turn } from '../../base/turn.ts'
import { parsePosition } from '../../chain/index.ts'
import { type HttpApp, HttpRefusal } from '../../http/index.ts'
import type { LedgerService } from '../node/service.ts'
import type { ItemHistory } from '../read/item-history.ts'
import { readConditions } from './conditions.ts'
import { historyReply, sendText, setLedgerPosition } from './replies.ts'
import {
  authorship,
  Count,
  IdempotencyHeaders,
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

const erasedPosition = Type.String({
  pattern: POSITION_PATTERN,
  description: '`<height>.<index>`',
})

/**
 * Body of an erasure. Without `positions`, all former revisions are erased. So unknown members are rejected: with a
 * misspelt `positions`, the request would erase more than its client meant.
 */
const EraseBody = Type.Union(
  [
    Type.Object(
      { positions: Type.Optional(Type.Array(erasedPosition, { minItems: 1 })) },
      { additionalProperties: false },
    ),
    Type.Null(),
  ],
  { examples: [{ positions: ['1.0'] }] },
)

const ErasedReply = okReply({
  positions: Type.Array(erasedPosition),
})

export function erasureRoutes(app: HttpApp, ledger: LedgerService): void {
  app.post(
    '/api/:db/:id/erase',
    operation('items', 'eraseRevisions', {
      summary: 'Erase former revisions of an item and its attachments',
      description:
        'The commitments stay, so all other entries and the existence of the erased entries can still be ' +
        'proven. The entry that deleted an attachment is erased together with the attachment. If an ' +
        'attachment replaced another attachment, the replaced attachment must be erased first or in the same request.',
      params: ItemParams,
      body: EraseBody,
      reply: ErasedReply,
      config: { scope: 'db:{db}:admin', documentedHeaders: IdempotencyHeaders },
    }),
    async (request, reply) => {
      const { db, id } = request.params
      const { position: at, positions } = await ledger.write.eraseRevisions(
        db,
        id,
        request.body?.positions ?? null,
        readConditions(request),
      )
      setLedgerPosition(reply, ledger, at)
      return { status: true as const, positions: [...positions] }
    },
  )
}
