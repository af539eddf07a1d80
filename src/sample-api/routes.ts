import formbody from '@fastify/formbody'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { isJsonObject, type Json } from '../base/json.ts'
import { parseStrictJson, StrictJsonError, statusOfStrictJson } from '../base/strict-json.ts'
import { addressOf, type HttpApp, HttpRefusal } from '../http/index.ts'
import { Failure, LoginBody, LoginReply, TokenQuery, UsersReply, WelcomeReply } from './schemas.ts'
import type { SampleService } from './service.ts'

/** Where logins are logged: by the id of the token, never by the token. */
export type SampleLogger = Pick<FastifyBaseLogger, 'info'>

const JSON_TYPE = 'application/json; charset=utf-8'
const failure = (message: string) => JSON.stringify({ success: false, message })
// Specification, “Errors”, rows T: these bytes.
const NO_TOKEN = failure('No token provided.')
const INVALID_TOKEN = failure('Invalid token.')

/**
 * How this listener reads bodies: JSON, URL-encoded, and anything else as no fields at all, so that
 * a request without a token is told so whatever else it carries. Also bodies of GET requests,
 * where a token may come and where Fastify by itself looks away.
 */
export async function readBodies(app: HttpApp): Promise<void> {
  app.addHttpMethod('GET', { hasBody: true, overrideExisting: true })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    async (_request: FastifyRequest, bytes: Buffer) =>
      bytes.length === 0 ? undefined : parseBody(bytes),
  )
  app.addContentTypeParser('*', { parseAs: 'buffer' }, async () => undefined)
  await app.register(formbody)
}

function parseBody(bytes: Buffer): Json {
  try {
    return parseStrictJson(bytes)
  } catch (error) {
    if (!(error instanceof StrictJsonError)) throw error
    // Not its message: that may quote the body, and this body may hold a password.
    const status = statusOfStrictJson[error.code]
    throw new HttpRefusal(status, error.code, 'the body is not JSON that is taken here')
  }
}

/**
 * Mounts `/` and the open and gated paths under `/api`.
 * Source: specification, “Endpoints”, T; docs/decisions/0044-token-gate.md.
 */
export function sampleRoutes(app: HttpApp, service: SampleService, logger: SampleLogger): void {
  app.get(
    '/',
    {
      schema: {
        tags: ['sample'],
        summary: 'Where the API is',
        description: 'Plain text. Needs no token.',
        security: [],
        response: { 200: { content: { 'text/plain': { schema: { type: 'string' } } } } },
      },
    },
    async (_request, reply) => reply.type('text/plain; charset=utf-8').send('The API is at /api\n'),
  )
  // The schemas below describe; they do not judge. A password that is a number is no match, and a
  // token that is a list is an invalid token: both have a reply of their own, not a 400.
  app.register(async (open: HttpApp) => {
    open.setValidatorCompiler(() => () => true)
    mountLogin(open, service, logger)
  })
  app.register(
    async (gated: HttpApp) => {
      gated.setValidatorCompiler(() => () => true)
      mountGated(gated, service)
    },
    { prefix: '/api' },
  )
}

function mountLogin(app: HttpApp, service: SampleService, logger: SampleLogger): void {
  app.post(
    '/api/authenticate',
    {
      schema: {
        tags: ['sample'],
        summary: 'Exchange a name and a password for a token',
        description:
          'A wrong name or password is answered with 200 and `success: false`. After ten failures ' +
          'for a name, or a hundred for an address, within five minutes: 429 and `Retry-After`.',
        security: [],
        consumes: ['application/json', 'application/x-www-form-urlencoded'],
        body: LoginBody,
        response: { 200: LoginReply, 429: Failure },
      },
    },
    async (request, reply) => {
      const body: unknown = request.body
      const [name, password] = [field(body, 'name'), field(body, 'password')]
      const login = await service.login(name, password, addressOf(request))
      reply.header('cache-control', 'no-store')
      switch (login.outcome) {
        case 'issued': {
          const { token, jti } = login.issued
          logger.info({ jti }, 'session token issued')
          return { success: true as const, message: 'Valid for 24 hours.', token }
        }
        case 'refused':
          return { success: false as const, message: 'Authentication failed.' }
        case 'held-off':
          reply.code(429).header('retry-after', login.waitSeconds)
          return {
            success: false as const,
            message: `Too many failed attempts. Try again in ${login.waitSeconds} seconds.`,
          }
      }
    },
  )
}

const security = [{ sessionToken: [] }, { sessionTokenInQuery: [] }, { sessionTokenAsBearer: [] }]

function mountGated(app: HttpApp, service: SampleService): void {
  app.addHook('onRequest', async (_request, reply) => {
    reply.header('cache-control', 'no-store')
  })
  // Runs for unknown paths and methods too, before they are called unknown.
  app.addHook('preHandler', async (request, reply) => {
    const token = tokenOf(request)
    if (token === undefined) return reply.code(403).type(JSON_TYPE).send(NO_TOKEN)
    if (!(await service.accepts(token))) return reply.code(200).type(JSON_TYPE).send(INVALID_TOKEN)
  })
  const welcome = async () => ({ message: 'Welcome to the sample API.' })
  app.get(
    '',
    {
      schema: {
        tags: ['sample'],
        summary: 'Say hello',
        description: 'An invalid token is answered with 200 and `success: false`.',
        security,
        querystring: TokenQuery,
        response: { 200: WelcomeReply, 403: Failure },
      },
    },
    welcome,
  )
  // Some clients add a slash; the page need not list that.
  const hidden = { hide: true, response: { 200: WelcomeReply } }
  app.get('/', { prefixTrailingSlash: 'slash', schema: hidden }, welcome)
  app.get(
    '/users',
    {
      schema: {
        tags: ['sample'],
        summary: 'List the users',
        description:
          'Every `password` is shown as `********`. An invalid token is answered with 200 and ' +
          '`success: false`.',
        security,
        querystring: TokenQuery,
        response: { 200: UsersReply, 403: Failure },
      },
    },
    async () => service.users(),
  )
  app.setNotFoundHandler((_request, reply) =>
    reply.code(404).type(JSON_TYPE).send(failure('Nothing is served at this path.')),
  )
}

/** The first token given, whatever its type; undefined when none is. */
function tokenOf({ body, query, headers }: FastifyRequest): unknown {
  const bearer = /^bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1]
  const given = [field(body, 'token'), field(query, 'token'), headers['x-access-token'], bearer]
  return given.find((token) => token !== undefined && token !== null && token !== '')
}

function field(fields: unknown, name: string): unknown {
  return isJsonObject(fields) ? fields[name] : undefined
}
