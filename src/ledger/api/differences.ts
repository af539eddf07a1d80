import { Type } from '../../base/shape.ts'
import { turn } from '../../base/turn.ts'
import { type HttpApp, HttpRefusal } from '../../http/index.ts'
import { may, mayReadEvery, requireScope } from '../../tokens/index.ts'
import type { LedgerService } from '../node/service.ts'
import { differences } from '../read/differences.ts'
import { findSameReply, findState, PAST_HEADERS } from './as-of.ts'
import { differencesReply, sendText } from './replies.ts'
import { AnyItem, Count, flag, isFlagSet, okReply, operation, TokenQuery } from './schemas.ts'

const stateParameter = (description: string) =>
  Type.String({ description, examples: ['1', '2026-12-31T23:59:59Z'] })

const DifferencesQuery = Type.Object({
  ...TokenQuery.properties,
  db: Type.Optional(
    Type.String({ description: 'Name of the database; without it, all that the token may read' }),
  ),
  from: stateParameter('The former state: height of a block, or time of RFC 3339'),
  to: Type.Optional(stateParameter('The later state; default: the current state')),
  docs: flag('Return the items before and after'),
  limit: Type.Optional(Count('Maximum number of changes; default: all')),
})

const DifferencesReply = okReply({
  changes: Type.Array(
    Type.Object({
      db: Type.String(),
      id: Type.String(),
      change: Type.Enum(['created', 'updated', 'deleted']),
      before: Type.Optional(AnyItem),
      after: Type.Optional(AnyItem),
    }),
  ),
  from: Type.Integer({ description: 'Height of the last block of the former state' }),
  to: Type.Integer({ description: 'Height of the last block of the later state' }),
  more: Type.Optional(
    Type.Boolean({ description: 'Only with `limit`: whether there are more than `limit` changes' }),
  ),
})

/** Mounts the route of differences. Its path starts with `/api/config`, see `aggregationRoutes`. */
export function differenceRoutes(app: HttpApp, ledger: LedgerService): void {
  app.get(
    '/api/config/diff',
    operation('items', 'listDifferences', {
      summary: 'List the items that were created, updated or deleted between two states',
      query: DifferencesQuery,
      reply: DifferencesReply,
      config: { scope: 'token', lasting: true },
    }),
    async ({ caller, query, headers }, reply) => {
      const { db = null } = query
      if (db !== null) requireScope(caller, { db, level: 'read' })
      const from = await findState(ledger, query.from)
      const to = await (query.to === undefined
        ? ledger.read.asOfHead()
        : findState(ledger, query.to))
      if (from.height > to.height) {
        const message = `from is height ${from.height}, after to, which is height ${to.height}`
        throw new HttpRefusal(400, 'REQUEST_INVALID', message)
      }
      reply.headers(PAST_HEADERS)
      const isSelected = (name: string) => may(caller, { db: name, level: 'read' })
      // Not as a beginning: the first piece may read a block of 10 MB.
      await turn()
      const docs = isFlagSet(query.docs)
      const pages = await differences(ledger.store, { db, from, to, isSelected, docs })
      // Two tokens get different replies about all databases, which must not have the same entity tag.
      const tagged = db !== null || mayReadEvery(caller) ? [from, to] : []
      const same = await findSameReply(ledger, reply, headers, ...tagged)
      if (same !== null) return same
      return sendText(reply, differencesReply(pages, { from, to, limit: query.limit ?? 0 }))
    },
  )
}
