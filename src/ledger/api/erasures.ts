import { Type } from '../../base/shape.ts'
import { parsePosition } from '../../chain/index.ts'
import { parseFilter } from '../../filter/index.ts'
import { type HttpApp, HttpRefusal } from '../../http/index.ts'
import { requireScope } from '../../tokens/index.ts'
import type { LedgerService } from '../node/service.ts'
import { ERASED_ITEMS_PER_REQUEST } from '../write/erasures.ts'
import { requireReason } from '../write/unit-of-work.ts'
import { readConditions } from './conditions.ts'
import { setLedgerPosition } from './replies.ts'
import {
  AnyItem,
  IdempotencyHeaders,
  ItemParams,
  okReply,
  operation,
  POSITION_PATTERN,
  reason,
} from './schemas.ts'

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

/** Mounts the routes of erasures. For the path below `/api/config`, see `aggregationRoutes`. */
export function erasureRoutes(app: HttpApp, ledger: LedgerService): void {
  bulkRoute(app, ledger)
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

const cursor = Type.String({
  pattern: `${POSITION_PATTERN.slice(0, -1)}(-${POSITION_PATTERN.slice(1, -1)})?$`,
  description: 'The `cursor` of the previous reply',
})

/** Unknown members are rejected, because a request with a misspelt member would erase more than its client meant. */
const ErasuresBody = Type.Object(
  {
    db: Type.String({ description: 'Name of the database, also of a deleted database' }),
    ids: Type.Optional(
      Type.Array(Type.String(), {
        minItems: 1,
        maxItems: ERASED_ITEMS_PER_REQUEST,
        description: 'Ids of items',
      }),
    ),
    where: Type.Optional({
      ...AnyItem,
      description:
        'Predicate of a filter, for the current items, and for deleted items as they were last; `{}` matches all',
    }),
    deleted: Type.Optional(
      Type.Literal(true, {
        description: 'Only deleted items, and those of deleted databases of this name',
      }),
    ),
    dryRun: Type.Optional(Type.Boolean({ description: 'Count, and erase nothing' })),
    reason,
    cursor: Type.Optional(cursor),
  },
  { additionalProperties: false, examples: [{ db: 'people', deleted: true, dryRun: true }] },
)

const ErasuresReply = okReply({
  items: Type.Integer({
    description:
      'Items of which something was erased, or would be, unless the next request continues them',
  }),
  revisions: Type.Integer({ description: 'Erased entries, or those that would be' }),
  cursor: Type.Union([cursor, Type.Null()], {
    description: 'Repeat the request with this cursor; null at the end',
  }),
})

function bulkRoute(app: HttpApp, ledger: LedgerService): void {
  app.post(
    '/api/config/erasures',
    operation('items', 'eraseItems', {
      summary: 'Erase all former revisions of many items and their attachments',
      description:
        'Give `ids`, or `where` or `deleted` or both. The current revision of an item stays. A request ends after ' +
        `${ERASED_ITEMS_PER_REQUEST} items or some seconds; repeat it with the cursor. A repeated request erases only what is left.`,
      body: ErasuresBody,
      reply: ErasuresReply,
      config: { scope: 'token' },
    }),
    async (request) => {
      const { db, ids = null, where, deleted = false, dryRun = false, cursor } = request.body
      requireScope(request.caller, { db, level: 'admin' })
      if ((ids !== null) === (where !== undefined || deleted)) {
        throw new HttpRefusal(400, 'REQUEST_INVALID', 'give either ids, or where or deleted')
      }
      const filter = where && parseFilter({ filter: JSON.stringify({ where }) })
      const [after = -1, from = 0] = cursor?.split('-').map(parsePosition) ?? []
      if (after === null || from === null) {
        throw new HttpRefusal(400, 'REQUEST_INVALID', 'cursor must be that of a reply')
      }
      const query = { db, ids, where: filter?.where ?? null, isDeletedOnly: deleted, after, from }
      const { reason } = request.body
      const conditions = readConditions(request)
      const erased = await ledger.write.eraseItems(
        { ...query, isDryRun: dryRun },
        reason === undefined ? conditions : { ...conditions, reason: requireReason(reason) },
      )
      return { status: true as const, ...erased }
    },
  )
}
