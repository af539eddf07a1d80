import { canonicalString } from '../../base/canonical-json.ts'
import { positionText } from '../../chain/index.ts'
import { disconnection, type HttpApp } from '../../http/index.ts'
import { may, mayReadEvery, requireScope } from '../../tokens/index.ts'
import { LedgerError } from '../errors.ts'
import type { LedgerService } from '../node/service.ts'
import { requireItem } from '../write/item.ts'
import type { RequestConditions } from '../write/request-conditions.ts'
import type { Written } from '../write/unit-of-work.ts'
import { findSameReply, isHeightText, requireState } from './as-of.ts'
import { readConditions, readItemConditions, readPrecondition, readStatus } from './conditions.ts'
import { requireRoom, sendText, setItemHeaders, takeBody } from './replies.ts'
import {
  ChangedItemReply,
  ConditionalHeaders,
  ConditionHeaders,
  CreateBody,
  DatabaseParams,
  DatabasesQuery,
  DatabasesReply,
  DoneReply,
  IdempotencyHeaders,
  ItemBody,
  ItemParams,
  ItemReadQuery,
  ItemReply,
  isFlagSet,
  operation,
  WrittenReply,
} from './schemas.ts'

const ITEM_PATH = '/api/:db/:id'
/** The reply for a missing item. Source: specification, “Endpoints”. */
const NO_ITEM = '{"status":false}'

export function databaseRoutes(app: HttpApp, ledger: LedgerService): void {
  databaseListRoute(app, ledger)
  app.post(
    '/api/:db',
    operation('databases items', 'create', {
      summary: 'Create a database (no body), an item (an object), or items (an array)',
      description:
        'A request without body bytes creates a database; `{}` is an item. Creating a database ' +
        'requires the scope `db:{db}:admin`.',
      params: DatabaseParams,
      body: CreateBody,
      reply: WrittenReply,
      config: { scope: 'db:{db}:write', documentedHeaders: IdempotencyHeaders },
    }),
    async (request, reply) => {
      const { params, caller } = request
      if (isAbsent(request.body)) requireScope(caller, { db: params.db, level: 'admin' })
      const conditions = readConditions(request)
      const { written, text } = await create(ledger, params.db, takeBody(request), conditions)
      return setItemHeaders(reply, ledger, written).send(text)
    },
  )

  app.delete(
    '/api/:db',
    operation('databases', 'deleteDatabase', {
      summary: 'Delete a database with all its items; the ledger keeps every entry',
      params: DatabaseParams,
      reply: DoneReply,
      config: { scope: 'db:{db}:admin', documentedHeaders: IdempotencyHeaders },
    }),
    async (request, reply) => {
      const conditions = readConditions(request)
      const written = await ledger.write.deleteDatabase(request.params.db, conditions)
      return setItemHeaders(reply, ledger, written).send('{"status":true}')
    },
  )
}

function databaseListRoute(app: HttpApp, ledger: LedgerService): void {
  app.get(
    '/api/dbs',
    operation('databases', 'listDatabases', {
      summary:
        'List the databases; if the node requires tokens, only those that the token can read',
      query: DatabasesQuery,
      reply: DatabasesReply,
      config: { scope: 'token' },
    }),
    async ({ caller, query, headers }, reply) => {
      const isReadable = (db: string) => may(caller, { db, level: 'read' })
      const asOf = await requireState(ledger, query.at, reply)
      const at = asOf === null ? {} : { at: asOf.height }
      // Two tokens get different lists, which must not have the same entity tag.
      const tagged = mayReadEvery(caller) ? asOf : null
      const same = await findSameReply(ledger, reply, headers, tagged)
      if (same !== null) return same
      const counted = isFlagSet(query.count)
        ? await ledger.read.countEach(isReadable, disconnection(reply), asOf)
        : null
      const all = counted ?? (await ledger.read.storedDatabases(asOf))
      const listed = all.filter(({ name }) => isReadable(name))
      const created = listed.map((database) => positionText(database.created))
      return {
        ...{ status: true as const, dbs: listed.map(({ name }) => name) },
        ...(counted === null ? {} : { counts: counted.map(({ count }) => count) }),
        ...(isFlagSet(query.created) ? { created } : {}),
        ...at,
      }
    },
  )
}

const ITEM_CHANGES = [
  {
    method: 'POST',
    change: 'updateItem',
    operationId: 'replaceItem',
    summary: 'Replace one item',
  },
  {
    method: 'PATCH',
    change: 'patchItem',
    operationId: 'patchItem',
    summary: 'Change members of one item (RFC 7396)',
  },
] as const

export function itemRoutes(app: HttpApp, ledger: LedgerService): void {
  readRoute(app, ledger)
  for (const { method, change, operationId, summary } of ITEM_CHANGES) {
    app.route({
      method,
      url: ITEM_PATH,
      ...operation('items', operationId, {
        summary,
        params: ItemParams,
        body: ItemBody,
        reply: ChangedItemReply,
        config: { scope: 'db:{db}:write', documentedHeaders: ConditionalHeaders },
      }),
      handler: async (request, reply) => {
        const { db, id } = request.params
        const conditions = readItemConditions(request)
        const item = requireItem(takeBody(request))
        const written = await ledger.write[change](db, id, item, conditions)
        const text = `{"status":true,"id":${canonicalString(id)}}`
        return setItemHeaders(reply, ledger, written).send(text)
      },
    })
  }

  app.delete(
    ITEM_PATH,
    operation('items', 'deleteItem', {
      summary: 'Delete one item; the ledger keeps its entries',
      params: ItemParams,
      reply: DoneReply,
      config: { scope: 'db:{db}:write', documentedHeaders: ConditionalHeaders },
    }),
    async (request, reply) => {
      const { db, id } = request.params
      const conditions = readItemConditions(request)
      const written = await ledger.write.deleteItem(db, id, conditions)
      return setItemHeaders(reply, ledger, written).send('{"status":true}')
    },
  )
}

function readRoute(app: HttpApp, ledger: LedgerService): void {
  app.get(
    ITEM_PATH,
    operation('items', 'readItem', {
      summary: 'Read one item, in its current state or as of a block',
      params: ItemParams,
      query: ItemReadQuery,
      reply: ItemReply,
      config: { scope: 'db:{db}:read', documentedHeaders: ConditionHeaders },
    }),
    async (request, reply) => {
      const { params, query } = request
      const { db, id } = params
      const precondition = readPrecondition(request)
      await requireRoom(request.server, ledger, db, id)
      const asOf = await requireState(ledger, query.at, reply)
      const item =
        asOf === null ? await ledger.read.item(db, id) : await ledger.history.itemAt(db, id, asOf)
      if (item === null) return sendText(reply.code(404), NO_ITEM)
      const { revision: position, text } = item
      const at = positionText(position)
      const status = precondition === null ? 200 : readStatus(precondition, at)
      if (status === 412)
        throw new LedgerError(
          'PRECONDITION_FAILED',
          `item ${id} of ${db} fails the precondition: its revision is ${at}`,
        )
      const answer = setItemHeaders(reply, ledger, { position })
      if (status === 304) return answer.code(304).removeHeader('content-type').send()
      const isTime = query.at !== undefined && !isHeightText(query.at)
      const end = isTime && asOf !== null ? `,"at":${asOf.height}` : ''
      return answer.send(`{"status":true,"item":${text}${end}}`)
    },
  )
}

/** Returns whether a request has no body. `null` means the same, because the JSON body `null` was rejected earlier. */
function isAbsent(body: unknown): body is undefined | null {
  return body === undefined || body === null
}

/** Creates a database, an item or several items. Returns the result and the text of the reply. */
function create(
  ledger: LedgerService,
  db: string,
  body: unknown,
  conditions: RequestConditions | undefined,
): Promise<{ written: Written; text: string }> {
  if (isAbsent(body)) {
    return ledger.write
      .createDatabase(db, conditions)
      .then((written) => ({ written, text: '{"status":true}' }))
  }
  if (Array.isArray(body)) {
    return ledger.write.createItems(db, body, conditions).then((written) => ({
      written,
      text: `{"status":true,"ids":[${written.ids.map(canonicalString).join(',')}]}`,
    }))
  }
  return ledger.write.createItem(db, requireItem(body), conditions).then((written) => ({
    written,
    text: `{"status":true,"id":${written.ids.map(canonicalString).join()}}`,
  }))
}
