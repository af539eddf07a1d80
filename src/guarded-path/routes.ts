import type { FastifyReply } from 'fastify'
import { isJsonObject } from '../base/json.ts'
import { type HttpApp, takeAllMethods } from '../http/index.ts'
import type { Pairs } from './pairs.ts'
import { HelloQuery, HelloReply } from './schemas.ts'
import { GuardService, isPresent } from './service.ts'

const REALM = 'Basic realm="daicho sample", charset="UTF-8"'

/**
 * Mounts the guard on every path that starts with `/hello`, for every method.
 *
 * The guard hooks into the routes of its scope, so it judges the path as the router understood it:
 * comparing `request.url` is walked past by `/%68ello` and by `GET http://host/hello`.
 * Source: specification, “B: guarded path”; docs/decisions/0043-guarded-path.md.
 */
export async function mountGuardedPath(app: HttpApp, pairs: Pairs): Promise<void> {
  const service = new GuardService(pairs)
  const methods = takeAllMethods(app)
  await app.register(async (guarded: HttpApp) => {
    guarded.addHook('onRequest', async (request, reply) => {
      reply.header('cache-control', 'no-store')
      const id = isJsonObject(request.query) ? request.query.id : undefined
      if (!service.grants(id, request.headers.authorization)) return demandCredentials(reply)
    })
    // The guard has judged `id` before the schema could; what follows only describes.
    guarded.setValidatorCompiler(() => () => true)
    guarded.get(
      '/hello',
      {
        schema: {
          tags: ['guarded path'],
          summary: 'Show the credentials stored for an id',
          description:
            'The same holds for every path that starts with `/hello`, and for every method.',
          security: [{ basicPerId: [] }],
          querystring: HelloQuery,
          response: {
            200: HelloReply,
            401: { content: { 'text/plain': { schema: { type: 'string' } } } },
          },
        },
      },
      async () => ({ status: true as const }),
    )
    guarded.route({
      method: methods,
      url: '/hello*',
      schema: { hide: true, response: { 200: HelloReply } },
      handler: async () => ({ status: true as const }),
    })
  })
}

/**
 * Mounts the related filter on every URL of `app`: 401 unless the `Authorization` header is longer
 * than six characters. It looks at nothing else, so it keeps nobody out who knows of it.
 * Source: specification, “Authentication”, B 3.
 */
export async function mountPresenceFilter(app: HttpApp): Promise<void> {
  app.addHook('onRequest', async (request, reply) => {
    if (!isPresent(request.headers.authorization)) return demandCredentials(reply)
  })
}

function demandCredentials(reply: FastifyReply): FastifyReply {
  return reply
    .code(401)
    .header('www-authenticate', REALM)
    .header('cache-control', 'no-store')
    .type('text/plain; charset=utf-8')
    .send('Authentication required.')
}
