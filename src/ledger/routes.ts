import type { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { canonicalString } from '../base/canonical-json.ts'
import { isJsonObject } from '../base/json.ts'
import { positionText } from '../chain/index.ts'
import { type HttpApp, HttpRefusal } from '../http/index.ts'
import { LedgerError } from './errors.ts'
import { blockListReply, idListReply, itemListReply } from './list-reply.ts'
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
import type { LedgerService, ListRange, Written } from './service.ts'

const JSON_TYPE = 'application/json; charset=utf-8'
/** What `GET /api/{db}/{id}` says of an item that is not there: specification, “Endpoints”. */
const NO_ITEM = '{"status":false}'
/** How every route fails. */
export const failures = { '4xx': Failure, '5xx': Failure }

/** Mounts the ledger's `/api` paths on `app`. */
export function ledgerRoutes(app: HttpApp, ledger: LedgerService): void {
  databaseRoutes(app, ledger)
  itemRoutes(app, ledger)
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
        summary: 'List the databases',
        querystring: TokenQuery,
        response: { 200: DatabasesReply, ...failures },
      },
    },
    async () => ({ status: true as const, dbs: await ledger.databases() }),
  )

  app.post(
    '/api/:db',
    {
      schema: {
        tags: ['databases', 'items'],
        summary: 'Create a database (no body), an item (an object), or items (an array)',
        description: 'Whether there is a body is decided by its bytes: `{}` is an item.',
        params: DatabaseParams,
        querystring: TokenQuery,
        body: CreateBody,
        response: { 200: WrittenReply, ...failures },
      },
    },
    async ({ params: { db }, body }, reply) => {
      const { written, text } = await create(ledger, db, body)
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
    },
    async ({ params }, reply) => {
      const written = await ledger.deleteDatabase(params.db)
      return placed(reply, ledger, written).send('{"status":true}')
    },
  )
}

/** The three meanings of `POST /api/{db}`, with the text of the reply. */
async function create(
  ledger: LedgerService,
  db: string,
  body: unknown,
): Promise<{ written: Written; text: string }> {
  if (body === undefined || body === null) {
    return { written: await ledger.createDatabase(db), text: '{"status":true}' }
  }
  if (Array.isArray(body)) {
    const written = await ledger.createItems(db, body)
    return {
      written,
      text: `{"status":true,"ids":[${written.ids.map(canonicalString).join(',')}]}`,
    }
  }
  if (!isJsonObject(body)) throw new LedgerError('ITEM_INVALID', 'an item is a JSON object')
  const written = await ledger.createItem(db, body)
  return { written, text: `{"status":true,"id":${canonicalString(written.id)}}` }
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
    },
    async ({ params: { db }, query }, reply) => {
      const range = { ...rangeOf(query), after: query.after ?? null }
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
        summary: 'Read one item',
        params: ItemParams,
        querystring: TokenQuery,
        response: { 200: ItemReply, ...failures },
      },
    },
    async ({ params: { db, id } }, reply) => {
      const item = await ledger.readItem(db, id)
      if (item === null) return sendText(reply.code(404), NO_ITEM)
      return placed(reply, ledger, { position: item.revision }).send(
        `{"status":true,"item":${item.text}}`,
      )
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
    { schema: { tags: ['items'], summary: 'Replace one item', ...change } },
    async ({ params: { db, id }, body }, reply) => {
      const written = await ledger.updateItem(db, id, objectOf(body))
      return placed(reply, ledger, written).send(`{"status":true,"id":${canonicalString(id)}}`)
    },
  )

  app.patch(
    '/api/:db/:id',
    {
      schema: { tags: ['items'], summary: 'Change members of one item (RFC 7396)', ...change },
    },
    async ({ params: { db, id }, body }, reply) => {
      const written = await ledger.patchItem(db, id, objectOf(body))
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
    },
    async ({ params: { db, id } }, reply) => {
      const written = await ledger.deleteItem(db, id)
      return placed(reply, ledger, written).send('{"status":true}')
    },
  )
}

function objectOf(body: unknown) {
  if (isJsonObject(body)) return body
  throw new LedgerError('ITEM_INVALID', 'an item is a JSON object')
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
        querystring: TokenQuery,
        body: ChangesBody,
        response: { 200: ChangesReply, ...failures },
      },
    },
    async ({ body }, reply) => {
      const { height, blockId, position, ids } = await ledger.recordChanges(body.entries)
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

/** Mounts `/healthz` (the process answers) and `/readyz` (it can write) on `app`. */
export function healthRoutes(app: HttpApp, ledger: LedgerService): void {
  app.get(
    '/healthz',
    {
      schema: {
        tags: ['operations'],
        summary: 'The process answers',
        response: { 200: DoneReply },
      },
    },
    async () => ({ status: true as const }),
  )
  app.get(
    '/readyz',
    {
      schema: {
        tags: ['operations'],
        summary: 'Changes can be written',
        response: { 200: DoneReply, 503: Failure },
      },
    },
    async () => {
      const cause = ledger.writesRefused
      if (cause !== null) throw new HttpRefusal(503, cause.code, cause.message, { cause })
      return { status: true as const }
    },
  )
}
