import type { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { canonicalString } from '../base/canonical-json.ts'
import { positionText } from '../chain/index.ts'
import { filterOf } from '../filter/index.ts'
import { type HttpApp, HttpRefusal } from '../http/index.ts'
import { demand, may } from '../tokens/index.ts'
import { LedgerError } from './errors.ts'
import { historyRoutes } from './history/routes.ts'
import { ItemQuery } from './history/schemas.ts'
import { requireItem } from './item.ts'
import { blockListReply, idListReply, itemListReply } from './list-reply.ts'
import type { ListRange } from './pages.ts'
import { filteredReply } from './queries/filtered-reply.ts'
import { create, isAbsent, takenBody } from './request-body.ts'
import {
  ChangesBody,
  ChangesReply,
  CreateBody,
  DatabaseParams,
  DatabasesReply,
  DoneReply,
  Failure,
  ItemBody,
  ItemListQuery,
  ItemListReply,
  ItemParams,
  ItemReply,
  isOn,
  LedgersQuery,
  LedgersReply,
  ServerIdReply,
  TokenQuery,
  WrittenReply,
} from './schemas.ts'
import type { LedgerService } from './service.ts'
import { readStatus } from './terms/precondition.ts'
import { conditionalTermsOf, preconditionOf, termsOfChange } from './terms/request-terms.ts'
import { ConditionalHeaders, ConditionHeaders, OnceHeaders } from './terms/schemas.ts'

const JSON_TYPE = 'application/json; charset=utf-8'
/** What `GET /api/{db}/{id}` says of an item that is not there: specification, “Endpoints”. */
const NO_ITEM = '{"status":false}'
/** How every route fails. */
export const failures = { '4xx': Failure, '5xx': Failure }

/** Mounts the ledger's `/api` paths on `app`. */
export function ledgerRoutes(app: HttpApp, ledger: LedgerService): void {
  databaseRoutes(app, ledger)
  itemRoutes(app, ledger)
  historyRoutes(app, ledger.history)
  chainRoutes(app, ledger)
}

/** Says where the change was recorded, beside the documented body. */
function placed(reply: FastifyReply, ledger: LedgerService, { position }: { position: number }) {
  const at = positionText(position)
  return reply
    .header('etag', `"${at}"`)
    .header('ledger-position', `${ledger.serverId}/${at}`)
    .type(JSON_TYPE)
}

/** Sends JSON that is text already, at once or as it is made. */
export function sendText(reply: FastifyReply, text: string | Readable): FastifyReply {
  return reply.type(JSON_TYPE).send(text)
}

/** The part of a list that a query asks for; the schema's coercion lets `1e400` through. */
export function rangeOf({ limit = 0, offset = 0 }: { limit?: number; offset?: number }): ListRange {
  if (Number.isSafeInteger(limit) && Number.isSafeInteger(offset)) return { limit, offset }
  throw new HttpRefusal(400, 'REQUEST_INVALID', 'limit and offset are integers')
}

function databaseRoutes(app: HttpApp, ledger: LedgerService): void {
  app.get(
    '/api/dbs',
    {
      schema: {
        tags: ['databases'],
        summary: 'List the databases; where tokens are required, those that the token can read',
        querystring: TokenQuery,
        response: { 200: DatabasesReply, ...failures },
      },
      config: { scope: 'token' },
    },
    async ({ caller }) => {
      const names = await ledger.databases()
      const dbs = names.filter((db) => may(caller, { db, level: 'read' }))
      return { status: true as const, dbs }
    },
  )

  app.post(
    '/api/:db',
    {
      schema: {
        tags: ['databases', 'items'],
        summary: 'Create a database (no body), an item (an object), or items (an array)',
        description:
          'Whether there is a body is decided by its bytes: `{}` is an item. Creating a database ' +
          'needs the scope `db:{db}:admin`.',
        params: DatabaseParams,
        querystring: TokenQuery,
        body: CreateBody,
        response: { 200: WrittenReply, ...failures },
      },
      config: { scope: 'db:{db}:write', shownHeaders: OnceHeaders },
    },
    async (request, reply) => {
      const { params, caller } = request
      if (isAbsent(request.body)) demand(caller, { db: params.db, level: 'admin' })
      const terms = termsOfChange(request)
      const { written, text } = await create(ledger, params.db, takenBody(request), terms)
      return placed(reply, ledger, written).send(text)
    },
  )

  app.delete(
    '/api/:db',
    {
      schema: {
        tags: ['databases'],
        summary: 'Delete a database with all its items; the ledger keeps every entry',
        params: DatabaseParams,
        querystring: TokenQuery,
        response: { 200: DoneReply, ...failures },
      },
      config: { scope: 'db:{db}:admin', shownHeaders: OnceHeaders },
    },
    async (request, reply) => {
      const terms = termsOfChange(request)
      const written = await ledger.deleteDatabase(request.params.db, terms)
      return placed(reply, ledger, written).send('{"status":true}')
    },
  )
}

function itemRoutes(app: HttpApp, ledger: LedgerService): void {
  app.get(
    '/api/:db',
    {
      schema: {
        tags: ['items'],
        summary: 'List the ids of a database, in the order of creation',
        params: DatabaseParams,
        querystring: ItemListQuery,
        response: { 200: ItemListReply, ...failures },
      },
      config: { scope: 'db:{db}:read' },
    },
    async ({ params: { db }, query }, reply) => {
      const range = { ...rangeOf(query), after: query.after ?? null }
      const filter = filterOf(query)
      if (filter !== null) {
        const asked = { ...range, docs: isOn(query.docs) }
        return sendText(reply, await filteredReply(reply, ledger, db, filter, asked))
      }
      const stream = isOn(query.docs)
        ? itemListReply(await ledger.listItems(db, range), range)
        : idListReply(await ledger.listIds(db, range), range)
      return sendText(reply, stream)
    },
  )

  app.get(
    '/api/:db/:id',
    {
      schema: {
        tags: ['items'],
        summary: 'Read one item, as it is or as it was',
        params: ItemParams,
        querystring: ItemQuery,
        response: { 200: ItemReply, ...failures },
      },
      config: { scope: 'db:{db}:read', shownHeaders: ConditionHeaders },
    },
    async (request, reply) => {
      const { params, query } = request
      const { db, id } = params
      const precondition = preconditionOf(request)
      const item =
        query.at === undefined
          ? await ledger.readItem(db, id)
          : await ledger.history.itemAt(db, id, heightFrom(query.at))
      if (item === null) return sendText(reply.code(404), NO_ITEM)
      const { revision: position, text } = item
      const at = positionText(position)
      const status = precondition === null ? 200 : readStatus(precondition, at)
      if (status === 412) throw new LedgerError('PRECONDITION_FAILED', `the item is at ${at}`)
      const answer = placed(reply, ledger, { position })
      if (status === 304) return answer.code(304).removeHeader('content-type').send()
      return answer.send(`{"status":true,"item":${text}}`)
    },
  )

  const change = {
    params: ItemParams,
    querystring: TokenQuery,
    body: ItemBody,
    response: { 200: WrittenReply, ...failures },
  }
  app.post(
    '/api/:db/:id',
    {
      schema: { tags: ['items'], summary: 'Replace one item', ...change },
      config: { scope: 'db:{db}:write', shownHeaders: ConditionalHeaders },
    },
    async (request, reply) => {
      const { db, id } = request.params
      const terms = conditionalTermsOf(request)
      const written = await ledger.updateItem(db, id, requireItem(takenBody(request)), terms)
      return placed(reply, ledger, written).send(`{"status":true,"id":${canonicalString(id)}}`)
    },
  )

  app.patch(
    '/api/:db/:id',
    {
      schema: { tags: ['items'], summary: 'Change members of one item (RFC 7396)', ...change },
      config: { scope: 'db:{db}:write', shownHeaders: ConditionalHeaders },
    },
    async (request, reply) => {
      const { db, id } = request.params
      const terms = conditionalTermsOf(request)
      const written = await ledger.patchItem(db, id, requireItem(takenBody(request)), terms)
      return placed(reply, ledger, written).send(`{"status":true,"id":${canonicalString(id)}}`)
    },
  )

  app.delete(
    '/api/:db/:id',
    {
      schema: {
        tags: ['items'],
        summary: 'Delete one item; the ledger keeps its entries',
        params: ItemParams,
        querystring: TokenQuery,
        response: { 200: DoneReply, ...failures },
      },
      config: { scope: 'db:{db}:write', shownHeaders: ConditionalHeaders },
    },
    async (request, reply) => {
      const { db, id } = request.params
      const terms = conditionalTermsOf(request)
      const written = await ledger.deleteItem(db, id, terms)
      return placed(reply, ledger, written).send('{"status":true}')
    },
  )
}

/** The schema's coercion lets `1e400` through. */
function heightFrom(at: number): number {
  if (Number.isSafeInteger(at)) return at
  throw new HttpRefusal(400, 'REQUEST_INVALID', 'at is the height of a block')
}

function chainRoutes(app: HttpApp, ledger: LedgerService): void {
  app.get(
    '/api/serverid',
    {
      schema: {
        tags: ['ledger'],
        summary: 'The server id of this node',
        querystring: TokenQuery,
        response: { 200: ServerIdReply, ...failures },
      },
      config: { scope: 'token' },
    },
    async () => ({ status: true as const, serverid: ledger.serverId }),
  )

  app.get(
    '/api/ledgers',
    {
      schema: {
        tags: ['ledger'],
        summary: 'List the blocks of a chain; `offset` is a height',
        querystring: LedgersQuery,
        response: { 200: LedgersReply, ...failures },
      },
      config: { scope: 'ledger:read', signed: true },
    },
    async ({ query }, reply) => {
      const range = rangeOf(query)
      const blocks = await ledger.listBlocks(serverIdFrom(query.serverid), range)
      return sendText(reply, blockListReply(blocks, range, isOn(query.proof)))
    },
  )

  app.post(
    '/api/ledgers',
    {
      schema: {
        tags: ['ledger'],
        summary: 'Record several changes of any databases in one block, or none of them',
        description:
          'Each entry needs what it would need by itself: `db:<its db>:write`, or `:admin` where it ' +
          'creates or deletes a database.',
        querystring: TokenQuery,
        body: ChangesBody,
        response: { 200: ChangesReply, ...failures },
      },
      config: { scope: 'token', shownHeaders: OnceHeaders },
    },
    async (request, reply) => {
      for (const { method, db } of request.body.entries) {
        demand(request.caller, { db, level: method.endsWith('_db') ? 'admin' : 'write' })
      }
      const terms = termsOfChange(request)
      const recorded = await ledger.recordChanges(takenBody(request).entries, terms)
      const { height, blockId, position, ids } = recorded
      placed(reply, ledger, { position })
      return {
        status: true as const,
        block: { serverid: ledger.serverId, height, id: blockId },
        results: ids.map((id) => ({ id })),
      }
    },
  )
}

/** The server id that `text` stands for. Errors: SERVERID_INVALID. */
export function serverIdFrom(text: string): number {
  if (/^[1-9]\d{0,15}$/.test(text) && Number(text) <= Number.MAX_SAFE_INTEGER) return Number(text)
  throw new LedgerError(
    'SERVERID_INVALID',
    'serverid is an integer; the own one is at /api/serverid',
  )
}

/** Mounts `/healthz` (the process answers) and `/readyz` (it can write and read) on `app`. */
export function healthRoutes(app: HttpApp, ledger: LedgerService): void {
  app.get(
    '/healthz',
    {
      schema: {
        tags: ['operations'],
        summary: 'The process answers',
        response: { 200: DoneReply },
      },
      config: { scope: 'public' },
    },
    async () => ({ status: true as const }),
  )
  app.get(
    '/readyz',
    {
      schema: {
        tags: ['operations'],
        summary: 'Changes can be written, and what was read could be read',
        response: { 200: DoneReply, 503: Failure },
      },
      config: { scope: 'public' },
    },
    async () => {
      const cause = ledger.writesRefused ?? ledger.readFailure
      if (cause !== null) throw new HttpRefusal(503, cause.code, cause.message, { cause })
      return { status: true as const }
    },
  )
}
