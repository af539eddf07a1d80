import { Type } from '../../base/shape.ts'
import { type HttpApp, HttpRefusal } from '../../http/index.ts'
import type { LedgerQueries } from '../queries.ts'
import type { LedgerService } from '../service.ts'
import { DoneReply, Failure, failures, okReply, TokenQuery } from './schemas.ts'

const db = Type.String({ shownPattern: '^[^/]+$', description: 'Name of the database' })
const path = Type.String({
  shownPattern: '^[^.]+([.][^.]+){0,7}$',
  description: 'Member names, separated by dots',
})

const IndexBody = Type.Object(
  { db, path },
  { additionalProperties: false, examples: [{ db: 'fruit', path: 'price' }] },
)
/** Alternative to a body. */
const RemoveIndexQuery = Type.Object({
  ...TokenQuery.properties,
  db: Type.Optional(db),
  path: Type.Optional(path),
})
const RemoveIndexBody = Type.Union([IndexBody, Type.Null()])

const IndexesReply = okReply({
  indexes: Type.Array(
    Type.Object({
      db,
      path,
      state: Type.Union([Type.Literal('building'), Type.Literal('ready')]),
      done: Type.Integer({ description: 'Blocks indexed since the database was created' }),
      total: Type.Integer({ description: 'Blocks to index' }),
    }),
  ),
})

const ReadyReply = okReply({
  frozen: Type.Optional(
    Type.Integer({
      description:
        'Mirrored chains that are frozen, unless 0: their keys have signed two histories',
    }),
  ),
})

const PATH = '/api/config/indexes'

export function indexRoutes(app: HttpApp, queries: LedgerQueries): void {
  app.get(
    PATH,
    {
      schema: {
        tags: ['operations'],
        operationId: 'listIndexes',
        summary: 'List the indexes of the databases of this node',
        querystring: TokenQuery,
        response: { 200: IndexesReply, ...failures },
      },
      config: { scope: 'node:admin' },
    },
    async () => {
      const indexes = await queries.indexes()
      return {
        status: true as const,
        indexes: indexes.map(({ db, path, isReady, done, total }) => {
          const state = isReady ? ('ready' as const) : ('building' as const)
          return { db, path, state, done, total }
        }),
      }
    },
  )

  app.post(
    PATH,
    {
      schema: {
        tags: ['operations'],
        operationId: 'addIndex',
        summary: 'Declare an index, which is then built in the background',
        querystring: TokenQuery,
        body: IndexBody,
        response: { 200: DoneReply, ...failures },
      },
      config: { scope: 'node:admin' },
    },
    async ({ body }) => {
      await queries.addIndex(body)
      return { status: true as const }
    },
  )

  app.delete(
    PATH,
    {
      schema: {
        tags: ['operations'],
        operationId: 'removeIndex',
        summary: 'Remove an index, named in the body or the query',
        querystring: RemoveIndexQuery,
        body: RemoveIndexBody,
        response: { 200: DoneReply, ...failures },
      },
      config: { scope: 'node:admin' },
    },
    async ({ body, query: { db, path } }) => {
      const named = db === undefined || path === undefined ? null : { db, path }
      const name = body ?? named
      if (name === null) throw new HttpRefusal(400, 'REQUEST_INVALID', 'db and path are required')
      await queries.removeIndex(name)
      return { status: true as const }
    },
  )
}

/** Mounts `/healthz` (the process responds) and `/readyz` (it can write and read). */
export function healthRoutes(app: HttpApp, ledger: LedgerService): void {
  app.get(
    '/healthz',
    {
      schema: {
        tags: ['operations'],
        operationId: 'checkHealth',
        summary: 'Check that the process responds',
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
        operationId: 'checkReadiness',
        summary: 'Check that changes can be written and that reads succeed',
        response: { 200: ReadyReply, 503: Failure },
      },
      config: { scope: 'public' },
    },
    async () => {
      const cause = ledger.writesRefused ?? ledger.readFailure
      if (cause !== null) throw new HttpRefusal(503, cause.code, cause.message, { cause })
      const frozen = ledger.mirrors.frozenCount
      return frozen === 0 ? { status: true as const } : { status: true as const, frozen }
    },
  )
}
