import { Type } from '../../base/shape.ts'
import { positionText } from '../../chain/index.ts'
import type { HttpApp } from '../../http/index.ts'
import { Failure, ItemParams, TokenQuery } from '../schemas.ts'
import type { LedgerService } from '../service.ts'
import { termsOfChange } from '../terms/request-terms.ts'
import { OnceHeaders } from '../terms/schemas.ts'

const position = Type.String({
  pattern: '^(0|[1-9][0-9]{0,10})[.](0|[1-9][0-9]{0,4})$',
  description: '`<height>.<index>`',
})

/** Which revisions go: those that are named, or all that are no longer current. */
const EraseBody = Type.Union([
  Type.Object({ positions: Type.Optional(Type.Array(position, { minItems: 1 })) }),
  Type.Null(),
])

/** What was erased. */
const ErasedReply = Type.Object({ status: Type.Literal(true), positions: Type.Array(position) })

/** Mounts the erasing of former revisions on `app`. */
export function erasureRoutes(app: HttpApp, ledger: LedgerService): void {
  app.post(
    '/api/:db/:id/erase',
    {
      config: { scope: 'db:{db}:admin', shownHeaders: OnceHeaders },
      schema: {
        tags: ['items'],
        summary: 'Erase what an item and its attachments were and are no longer',
        description:
          'Their commitments stay: every proof of every other entry holds as before, and of these ' +
          'that they were there. An attachment goes with the entry that deleted it, and not before ' +
          'what it replaced.',
        params: ItemParams,
        querystring: TokenQuery,
        body: EraseBody,
        response: { 200: ErasedReply, '4xx': Failure, '5xx': Failure },
      },
    },
    async (request, reply) => {
      const { db, id } = request.params
      const { position: at, positions } = await ledger.erasure.erase(
        db,
        id,
        request.body?.positions ?? null,
        termsOfChange(request),
      )
      reply.header('ledger-position', `${ledger.serverId}/${positionText(at)}`)
      return { status: true as const, positions: [...positions] }
    },
  )
}
