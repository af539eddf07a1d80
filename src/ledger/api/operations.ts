import { Type } from '../../base/shape.ts'
import { type HttpApp, HttpRefusal } from '../../http/index.ts'
import type { LedgerQueries } from '../queries.ts'
import type { LedgerService } from '../service.ts'
import { DoneReply, Failure, failures } from './schemas.ts'

const db = Type.String({ shownPattern: '^[^/]+$', description: 'Name of the database' })
const path = Type.String({
  shownPattern: '^[^.]+([.][^.]+){0,7}$',
  description: 'Members of the items, with dots between them',
})
const token = Type.Optional(Type.String({ description: 'Only where tokens are required' }))

/** `GET` and `POST /api/config/indexes`. */
const IndexesQuery = Type.Object({ token })
/** `POST /api/config/indexes`; `DELETE` takes the same in its body or its query. */
const IndexBody = Type.Object({ db, path }, { additionalProperties: false })
/** `DELETE /api/config/indexes`: the query, when there is no body. */
const RemoveIndexQuery = Type.Object({
  token,
  db: Type.Optional(db),
  path: Type.Optional(path),
})
/** `DELETE /api/config/indexes`: a body is optional. */
const RemoveIndexBody = Type.Union([IndexBody, Type.Null()])

/** The declared indexes, and how far they are. */
const IndexesReply = Type.Object({
  status: Type.Literal(true),
  indexes: Type.Array(
    Type.Object({
      db,
      path,
      state: Type.Union([Type.Literal('building'), Type.Literal('ready')]),
      done: Type.Integer({ description: 'Blocks gone through since the database was created' }),
      total: Type.Integer({ description: 'Blocks to go through' }),
    }),
  ),
})

const PATH = '/api/config/indexes'

/** Mounts the paths of the declared indexes on `app`. */
export function indexRoutes(app: HttpApp, queries: LedgerQueries): void {
  app.get(
    PATH,
    {
      schema: {
        tags: ['operations'],
        summary: 'List the indexes of the databases of this node',
        querystring: IndexesQuery,
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
        summary: 'Declare an index, which is then built in the background',
        querystring: IndexesQuery,
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
      if (name === null)
        throw new HttpRefusal(400, 'REQUEST_INVALID', 'name the index by db and path')
      await queries.removeIndex(name)
      return { status: true as const }
    },
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
