import { parse as parseQuery } from 'node:querystring'
import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import { isJsonObject, type Json } from '../../base/json.ts'
import { Type } from '../../base/shape.ts'
import { parseStrictJson, StrictJsonError, statusOfStrictJson } from '../../base/strict-json.ts'
import {
  type HttpApp,
  HttpRefusal,
  readAddress,
  readBody,
  unroutedRefusal,
} from '../../http/index.ts'
import type { SampleService } from '../service.ts'

/** The log for logins. An entry contains the id of the token, never the token itself. */
export type SampleLogger = Pick<FastifyBaseLogger, 'info'>

const LoginBody = Type.Object(
  { name: Type.String(), password: Type.String({ format: 'password' }) },
  { examples: [{ name: 'demo', password: 'demo' }] },
)
/** The body of all error replies of this listener, except those of paths that start with `/hello`. */
const Failure = Type.Object({ success: Type.Literal(false), message: Type.String() })
const LoginReply = Type.Union([
  Type.Object({
    success: Type.Literal(true),
    message: Type.String(),
    token: Type.String({ description: 'Valid for 24 hours.' }),
  }),
  Failure,
])
const TokenQuery = Type.Object({ token: Type.Optional(Type.String()) })
const WelcomeReply = Type.Object({ message: Type.String() })
const UsersReply = Type.Array(
  Type.Object({ name: Type.String(), password: Type.String(), admin: Type.Boolean() }),
)

const JSON_TYPE = 'application/json; charset=utf-8'
/** Maximum number of times that a path is percent-decoded before `couldMeanApi` compares it. */
const DECODINGS_MAX = 4
const formatFailure = (message: string) => JSON.stringify({ success: false, message })
// The specification fixes these bytes (“Errors”, rows T).
const NO_TOKEN = formatFailure('No token provided.')
const INVALID_TOKEN = formatFailure('Invalid token.')

/**
 * Configures how this listener reads bodies: JSON and URL-encoded forms are parsed, other types are read and ignored,
 * so that a request without a token always gets the same reply. Bodies of GET requests are read too, unlike Fastify's
 * default, because they may contain a token.
 */
export function readBodies(app: HttpApp): void {
  app.addHttpMethod('GET', { hasBody: true, overrideExisting: true })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', async (request: FastifyRequest) => {
    const body = await readBody(request)
    return body.length === 0 ? undefined : parseBody(body)
  })
  app.addContentTypeParser('application/x-www-form-urlencoded', async (request: FastifyRequest) =>
    parseQuery((await readBody(request)).toString()),
  )
  app.addContentTypeParser('*', async (request: FastifyRequest) => void (await readBody(request)))
}

function parseBody(bytes: Buffer): Json {
  try {
    return parseStrictJson(bytes)
  } catch (error) {
    if (!(error instanceof StrictJsonError)) throw error
    // Replaces the parser's message, because it may quote a password from the body.
    const status = statusOfStrictJson[error.code]
    throw new HttpRefusal(status, error.code, 'the body is not valid JSON')
  }
}

/**
 * Mounts `/` and the open and gated paths under `/api`.
 * Source: specification, “Endpoints”, T; docs/decisions/0015-passwords.md.
 */
export function sampleRoutes(app: HttpApp, service: SampleService, logger: SampleLogger): void {
  app.get(
    '/',
    {
      schema: {
        tags: ['sample'],
        operationId: 'readApiPath',
        summary: 'Show the path of the API',
        description: 'Plain text. Needs no token.',
        security: [],
        response: { 200: { content: { 'text/plain': { schema: { type: 'string' } } } } },
      },
    },
    async (_request, reply) => reply.type('text/plain; charset=utf-8').send('The API is at /api\n'),
  )
  app.addHook('preHandler', async (request, reply) => {
    if (!request.is404 || !couldMeanApi(request.url)) return undefined
    reply.header('cache-control', 'no-store')
    return requireToken(service, request, reply)
  })
  // The schemas below are only for the documentation and do not validate requests, because wrong types must not cause a
  // 400: a number counts as a wrong password, and a list as an invalid token.
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

/** Sends an error reply unless the request has a valid token. */
async function requireToken(
  service: SampleService,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply | undefined> {
  const token = findToken(request)
  if (token === undefined) return reply.code(403).type(JSON_TYPE).send(NO_TOKEN)
  if (await service.accepts(token)) return undefined
  request.reportDenial({ reason: 'TOKEN_INVALID' })
  return reply.code(200).type(JSON_TYPE).send(INVALID_TOKEN)
}

/**
 * Whether a lenient URL parser could treat `url`, which matches no route, as a path under `/api`. Decodes the path up
 * to DECODINGS_MAX times, resolves empty and dot segments, treats backslashes as slashes, and ignores case.
 */
function couldMeanApi(url: string): boolean {
  let path = url.replace(/[?#].*$/s, '').replace(/^[a-z]+:\/\/[^/]*/i, '')
  for (let round = 0; round < DECODINGS_MAX && path.includes('%'); round += 1) {
    path = path.replace(/%([0-7][0-9a-f])/gi, (_, hex) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    )
  }
  const segments: string[] = []
  for (const segment of path.split(/[/\\]/)) {
    if (segment === '..') segments.pop()
    else if (segment !== '' && segment !== '.') segments.push(segment)
  }
  return segments[0]?.replace(/;.*$/s, '').toLowerCase() === 'api'
}

function mountLogin(app: HttpApp, service: SampleService, logger: SampleLogger): void {
  app.post(
    '/api/authenticate',
    {
      schema: {
        tags: ['sample'],
        operationId: 'authenticate',
        summary: 'Exchange a name and a password for a token',
        description:
          'A wrong name or password is answered with 200 and `success: false`. After ten failures ' +
          'for a name, or a hundred for an address, within five minutes: 429 and `Retry-After`.',
        security: [],
        consumes: ['application/json', 'application/x-www-form-urlencoded'],
        body: LoginBody,
        response: { 200: LoginReply, '4xx': Failure },
      },
    },
    async (request, reply) => {
      const body: unknown = request.body
      const [name, password] = [readField(body, 'name'), readField(body, 'password')]
      // Another name may be a password in the wrong field.
      const subject = typeof name === 'string' && service.isUser(name) ? { subject: name } : {}
      const login = await service.login(name, password, readAddress(request))
      reply.header('cache-control', 'no-store')
      switch (login.outcome) {
        case 'issued': {
          const { token, jti } = login.issued
          logger.info({ jti }, 'session token issued')
          return { success: true as const, message: 'Valid for 24 hours.', token }
        }
        case 'refused':
          request.reportDenial({ ...subject, reason: 'LOGIN_FAILED' })
          return { success: false as const, message: 'Authentication failed.' }
        case 'throttled':
          request.reportDenial({ ...subject, reason: 'TOO_MANY_FAILURES' })
          reply.code(429).header('retry-after', login.waitSeconds)
          return {
            success: false as const,
            message: `Too many failed attempts. Try again in ${login.waitSeconds} seconds.`,
          }
      }
    },
  )
}

function mountGated(app: HttpApp, service: SampleService): void {
  app.addHook('onRequest', async (_request, reply) => {
    reply.header('cache-control', 'no-store')
  })
  // This hook also runs for unknown paths and methods, so a request without a token gets no 404 or 405.
  app.addHook('preHandler', (request, reply) => requireToken(service, request, reply))
  const gated = {
    tags: ['sample'],
    security: [{ bearer: [] }],
    querystring: TokenQuery,
  }
  const welcome = async () => ({ message: 'Welcome to the sample API.' })
  app.get(
    '',
    {
      schema: {
        ...gated,
        operationId: 'hello',
        summary: 'Say hello',
        description: 'An invalid token is answered with 200 and `success: false`.',
        response: { 200: Type.Union([WelcomeReply, Failure]), '4xx': Failure },
      },
    },
    welcome,
  )
  // This route is for clients that append a slash. The documentation omits it.
  const hidden = { hide: true, response: { 200: WelcomeReply } }
  app.get('/', { prefixTrailingSlash: 'slash', schema: hidden }, welcome)
  app.get(
    '/users',
    {
      schema: {
        ...gated,
        operationId: 'listUsers',
        summary: 'List the users',
        description:
          'Every `password` is shown as `********`. An invalid token is answered with 200 and ' +
          '`success: false`.',
        response: { 200: Type.Union([UsersReply, Failure]), '4xx': Failure },
      },
    },
    async () => service.users(),
  )
  // This handler is set in the gated scope, so that the hook above checks the token before a 404 is sent.
  app.setNotFoundHandler((request) => {
    throw unroutedRefusal(request)
  })
}

/** Returns the first token in the request, of any type, or undefined. */
function findToken({ body, query, headers }: FastifyRequest): unknown {
  const bearer = /^bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1]
  const tokens = [
    readField(body, 'token'),
    readField(query, 'token'),
    headers['x-access-token'],
    bearer,
  ]
  return tokens.find((token) => token !== undefined && token !== null && token !== '')
}

function readField(fields: unknown, name: string): unknown {
  return isJsonObject(fields) ? fields[name] : undefined
}
