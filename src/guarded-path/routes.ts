import type { FastifyReply } from 'fastify'
import { isJsonObject } from '../base/json.ts'
import { Type } from '../base/shape.ts'
import { acceptAllMethods, type HttpApp } from '../http/index.ts'
import { grants, type Pairs } from './pairs.ts'

const REALM = 'Basic realm="daicho sample", charset="UTF-8"'
/** The presence filter accepts any `Authorization` header of at least this length. Source: specification, B 3. */
const HEADER_LENGTH_MIN = 7

const HelloQuery = Type.Object({ id: Type.String({ examples: ['demo'] }) })
const HelloReply = Type.Object({ status: Type.Literal(true) })

/**
 * Mounts the access check on every path that starts with `/hello`, for every method. The check is a hook of its
 * routes, so it uses the path as the router parsed it. Comparing `request.url` could be bypassed with `/%68ello`
 * and with `GET http://host/hello`. Source: specification, “B: guarded path”; docs/decisions/0015-passwords.md.
 */
export async function mountGuardedPath(app: HttpApp, pairs: Pairs): Promise<void> {
  const methods = acceptAllMethods(app)
  await app.register(async (guarded: HttpApp) => {
    guarded.addHook('onRequest', async (request, reply) => {
      reply.header('cache-control', 'no-store')
      const id = isJsonObject(request.query) ? request.query.id : undefined
      if (!grants(pairs, id, request.headers.authorization)) return demandCredentials(reply)
    })
    // The hook has checked `id` already; the schemas are only for documentation.
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
 * Mounts the presence filter on every URL of `app`: 401 unless the `Authorization` header is longer than six
 * characters. It checks nothing else, so it does not protect anything. Source: specification, “Authentication”, B
 * 3.
 */
export function mountPresenceFilter(app: HttpApp): void {
  app.addHook('onRequest', async (request, reply) => {
    const { authorization = '' } = request.headers
    if (authorization.length < HEADER_LENGTH_MIN) return demandCredentials(reply)
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
