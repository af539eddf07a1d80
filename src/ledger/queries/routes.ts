import { type HttpApp, HttpRefusal } from '../../http/index.ts'
import { DoneReply, Failure } from '../schemas.ts'
import type { LedgerQueries } from './queries.ts'
import {
  IndexBody,
  IndexesQuery,
  IndexesReply,
  RemoveIndexBody,
  RemoveIndexQuery,
} from './schemas.ts'

const failures = { '4xx': Failure, '5xx': Failure }
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
