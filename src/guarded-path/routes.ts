import { hash } from 'node:crypto'
import type { FastifyReply, onRequestAsyncHookHandler } from 'fastify'
import type { Clock } from '../base/clock.ts'
import { isJsonObject } from '../base/json.ts'
import { Type } from '../base/shape.ts'
import {
  acceptAllMethods,
  FailureThrottle,
  failedLogin,
  type HttpApp,
  PASSWORD_FAILURES,
  parseBasic,
  readAddress,
  toClientKey,
} from '../http/index.ts'
import { grants, type Pairs } from './pairs.ts'

/** Wrong passwords of one client for all ids together; PASSWORD_FAILURES limits those for one id. */
const CLIENT_FAILURES = { ...PASSWORD_FAILURES, failuresMax: 100 }
const TOO_MANY = 'Too many wrong passwords. Try again later.'
const REALM = 'Basic realm="daicho sample", charset="UTF-8"'
/** Minimum length of an `Authorization` header that the presence filter accepts. Source: specification, B 3. */
const HEADER_LENGTH_MIN = 7

const HelloQuery = Type.Object({ id: Type.String({ examples: ['demo'] }) })
const HelloReply = Type.Object({ status: Type.Literal(true) })

/**
 * Requires credentials for every path that starts with `/hello`, and for every method. The check is a hook of the
 * routes, so the router decides to which paths the check applies. A comparison with `request.url` could be bypassed
 * with `/%68ello` or `GET http://host/hello`. `monotonic`: clock that throttles wrong passwords. Source: specification, “B: guarded path”; decision 0015.
 */
export async function mountGuardedPath(
  app: HttpApp,
  pairs: Pairs,
  monotonic: Clock,
): Promise<void> {
  const methods = acceptAllMethods(app)
  await app.register(async (guarded: HttpApp) => {
    guarded.addHook('onRequest', credentialCheck(pairs, monotonic))
    // The schemas are only for the documentation, because the hook has already checked `id`.
    guarded.setValidatorCompiler(() => () => true)
    guarded.get(
      '/hello',
      {
        schema: {
          tags: ['guarded path'],
          operationId: 'checkCredentials',
          summary: 'Check the credentials of an id',
          description: 'Every path that starts with `/hello` works the same, with every method.',
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

/** Returns the hook that requires the credentials of the requested id, and throttles wrong passwords. */
function credentialCheck(pairs: Pairs, monotonic: Clock): onRequestAsyncHookHandler {
  const byId = new FailureThrottle(monotonic, PASSWORD_FAILURES)
  const byClient = new FailureThrottle(monotonic, CLIENT_FAILURES)
  return async (request, reply) => {
    reply.header('cache-control', 'no-store')
    const id = isJsonObject(request.query) ? request.query.id : undefined
    const client = toClientKey(readAddress(request))
    // The same for unknown ids, so that a 429 does not tell which ids exist.
    const idKey = hash('sha256', JSON.stringify([client, id ?? null]))
    const waitMs = Math.max(byId.waitMs(idKey), byClient.waitMs(client))
    if (waitMs > 0) {
      request.reportDenial({ reason: 'TOO_MANY_FAILURES' })
      return sendText(reply.code(429).header('retry-after', Math.ceil(waitMs / 1_000)), TOO_MANY)
    }
    const { authorization } = request.headers
    if (grants(pairs, id, authorization)) {
      // Does not clear the client, because with an own id it could guess the passwords of others without end.
      byId.clear(idKey)
      return
    }
    const given = parseBasic(authorization)
    if (given !== null) {
      byId.fail(idKey)
      byClient.fail(client)
      request.reportDenial(
        failedLogin(given.name, typeof id === 'string' ? pairs.get(id)?.name : undefined),
      )
    }
    return demandCredentials(reply)
  }
}

/**
 * Replies with 401 to every request whose `Authorization` header has less than HEADER_LENGTH_MIN characters. This
 * filter protects nothing, because it checks no credentials. Source: specification, “Authentication”, B 3.
 */
export function mountPresenceFilter(app: HttpApp): void {
  app.addHook('onRequest', async (request, reply) => {
    const { authorization = '' } = request.headers
    if (authorization.length < HEADER_LENGTH_MIN) return demandCredentials(reply)
  })
}

function demandCredentials(reply: FastifyReply): FastifyReply {
  return sendText(reply.code(401).header('www-authenticate', REALM), 'Authentication required.')
}

function sendText(reply: FastifyReply, text: string): FastifyReply {
  return reply.header('cache-control', 'no-store').type('text/plain; charset=utf-8').send(text)
}
