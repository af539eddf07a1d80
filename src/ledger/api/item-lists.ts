import type { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import type { Static } from 'typebox'
import { turn } from '../../base/turn.ts'
import { parsePosition } from '../../chain/index.ts'
import { type Filter, parseFilter, type Where } from '../../filter/index.ts'
import { disconnection, type HttpApp, HttpRefusal } from '../../http/index.ts'
import type { LedgerService } from '../node/service.ts'
import {
  type AsOf,
  type QueryResult,
  requireCreationOrder,
  requireDatabase,
} from '../read/pages.ts'
import type { ItemListRange } from '../read/reads.ts'
import { findSameReply, requireState } from './as-of.ts'
import { requireSignedState } from './log.ts'
import { idListReply, itemListReply, type ListEnd, requireRange, sendText } from './replies.ts'
import { DatabaseParams, ItemListQuery, ItemListReply, isFlagSet, operation } from './schemas.ts'

/** The parameters of a list, except its filter. */
interface ListOptions extends ItemListRange {
  readonly docs: boolean
  readonly count: boolean
  readonly cursor: boolean
  readonly asOf: AsOf | null
}

/** The filter of a list of a past state whose request has none. */
const NO_FILTER: Filter = {
  ...{ where: null, order: [], limit: null, offset: null, fields: null, resolve: false },
}

export function itemListRoutes(app: HttpApp, ledger: LedgerService): void {
  app.get(
    '/api/:db',
    operation('items', 'listItems', {
      summary: 'List the ids of a database, in creation order',
      params: DatabaseParams,
      query: ItemListQuery,
      reply: ItemListReply,
      config: { scope: 'db:{db}:read', lasting: true },
    }),
    async ({ params: { db }, query, method, headers }, reply) => {
      if (isFlagSet(query.proof)) return sendList(reply, ledger, db, query)
      const asOf = await requireState(ledger, query.at, reply)
      if (asOf !== null) await requireDatabase(ledger.store, db, asOf)
      const same = await findSameReply(ledger, reply, headers, asOf)
      if (same !== null) return same
      const docs = isFlagSet(query.docs) && method !== 'HEAD'
      const options = {
        ...{ ...requireRange(query), after: parseStart(query), cursor: query.cursor !== undefined },
        ...{ docs, count: isFlagSet(query.count), asOf },
      }
      const filter = parseFilter(query)
      await turn(!docs)
      const stream =
        filter === null && asOf === null
          ? plainReply(reply, ledger, db, options)
          : filteredReply(reply, ledger, db, filter ?? NO_FILTER, options)
      return sendText(reply, await stream)
    },
  )
}

/** Sends the proof of a whole list. Errors: 400 if another parameter selects something; as for `LedgerState.list`. */
async function sendList(
  reply: FastifyReply,
  { log }: LedgerService,
  db: string,
  { token, proof, ...others }: Static<typeof ItemListQuery>,
): Promise<FastifyReply> {
  const other = Object.keys(others)[0]
  if (other !== undefined) {
    const message = `proof proves the list of all ids, so it cannot be combined with ${other}`
    throw new HttpRefusal(400, 'REQUEST_INVALID', message)
  }
  const list = await requireSignedState(log).list(db)
  return reply
    .header('content-disposition', 'attachment; filename="items.state-list"')
    .header('cache-control', 'no-cache')
    .type('text/plain; charset=utf-8')
    .send(list)
}

/** Returns the id or the packed position after which the list starts, or null. */
function parseStart({ after, cursor = 'start' }: { after?: string; cursor?: string }) {
  if (cursor === 'start') return after ?? null
  const position = parsePosition(cursor)
  if (position !== null && after === undefined) return position
  const message = 'cursor must be start or a position, <height>.<index>, without after'
  throw new HttpRefusal(400, 'REQUEST_INVALID', message)
}

async function plainReply(
  reply: FastifyReply,
  ledger: LedgerService,
  db: string,
  options: ListOptions,
): Promise<Readable> {
  // The reads start together, so that on SQLite a short list and its count come from one snapshot.
  const ending = readListEnd(disconnection(reply), ledger, db, null, options)
  if (options.docs) {
    const [pages, end] = await Promise.all([ledger.read.items(db, options), ending])
    return itemListReply(pages, end)
  }
  const [pages, end] = await Promise.all([ledger.read.ids(db, options), ending])
  return idListReply(pages, end)
}

/**
 * Builds the reply for a list with a filter, in the same format as without a filter. `limit` and `offset` of the filter
 * override the parameters, and `fields` implies `docs`.
 */
async function filteredReply(
  reply: FastifyReply,
  ledger: LedgerService,
  db: string,
  filter: Filter,
  options: ListOptions,
): Promise<Readable> {
  const docs = options.docs || filter.fields !== null
  const limit = filter.limit ?? options.limit
  const offset = filter.offset ?? options.offset
  if (options.cursor) requireCreationOrder(filter.order)
  const signal = disconnection(reply)
  const [found, end] = await Promise.all([
    ledger.read.find(
      db,
      {
        filter: { ...filter, limit: limit === 0 ? null : limit, offset },
        after: options.after,
        ...{ docs, signal },
      },
      options.asOf,
    ),
    readListEnd(signal, ledger, db, filter.where, { ...options, limit, offset }),
  ])
  if (filter.where !== null || filter.order.length > 0)
    reply.header('query-plan', formatPlan(found))
  return docs ? itemListReply(found.pages, end) : idListReply(found.pages, end)
}

/** Returns the last members of the reply. Counts the items if requested, unless the reply lists all of them. */
async function readListEnd(
  signal: AbortSignal,
  ledger: LedgerService,
  db: string,
  where: Where | null,
  { limit, offset, after, count, cursor, asOf }: ListOptions,
): Promise<ListEnd> {
  const range = { limit, offset, cursor, at: asOf?.height }
  if (!count) return range
  const isWhole = limit === 0 && offset === 0 && after === null
  if (isWhole) return { ...range, count: 'listed' }
  return { ...range, count: await ledger.read.count(db, where, signal, asOf) }
}

/** Returns the header `query-plan`. The path is URL-encoded, because it can contain characters that a header cannot. */
function formatPlan({ index }: QueryResult): string {
  return index === null ? 'scan' : `index ${encodeURIComponent(index)}`
}
