import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Author } from '../../base/author.ts'
import {
  acceptAllMethods,
  assetFiles,
  disconnection,
  type HttpApp,
  HttpRefusal,
  readBody,
  SECURITY_HEADERS,
  servePageFiles,
  swaggerPage,
} from '../../http/index.ts'
import {
  ADMIN,
  authenticate,
  authenticateAccount,
  type BusinessNetwork,
  type Caller,
  type FieldDefault,
  NetworkError,
  parseFieldDefault,
} from '../../network/index.ts'
import type { GatewayService, NamespaceStyle } from '../service.ts'
import { answerAggregation, answerHistory, isAggregation } from './analysis.ts'
import { withDetails } from './errors.ts'
import { openApiDocument } from './openapi.ts'
import {
  answerCollection,
  answerResource,
  type NetworkRequest,
  requireMethod,
  sendListing,
} from './resources.ts'
import { answerSystem, type SystemDeps } from './system.ts'

/** Authentication settings. */
export interface GatewayAccess {
  /** The `x-api-key` of the administrator; null if there is none. */
  readonly apiKey: string | null
  /** Whether a request without credentials has the rights of the administrator. */
  readonly open: boolean
  /** The author of the administrator's changes; absent if it is the participant of the administrator. */
  readonly by?: Author
  /** Returns the account of an issuer that owns an access token; null if the token is invalid. Absent: no issuers. */
  readonly findAccount?: (token: string) => Promise<Author | null>
}

export interface RouteDeps extends SystemDeps {
  readonly service: GatewayService
  readonly access: GatewayAccess
  readonly serverId: number
  /** Requests in progress, for which `close` waits, because a request continues after its client has disconnected. */
  readonly inProgress: Set<Promise<unknown>>
}

const BEARER = /^bearer +([\w.~+/-]+=*) *$/i
/** A JSON Web Token, whose header begins with `{"`. */
const JWT = /^eyJ[\w-]*\.[\w-]+\.[\w-]+$/
/** Path of the files that all explorers share. */
const EXPLORER_ASSETS = '/explorer/static'

/** Returns the caller of a request to `network`. Errors: 401. */
export async function requireCaller(
  headers: IncomingHttpHeaders,
  network: BusinessNetwork,
  access: GatewayAccess,
): Promise<Caller> {
  const { authorization } = headers
  if (authorization === undefined) return requireAdmin(headers, access)
  const [, secret] = BEARER.exec(authorization) ?? []
  if (secret === undefined)
    throw unauthorized('Authorization must be Bearer <secret of the identity>', 'invalid_request')
  return identifyCaller(network, secret, access).catch((error: unknown) => {
    throw toDenial(error)
  })
}

async function identifyCaller(
  network: BusinessNetwork,
  secret: string,
  { findAccount }: GatewayAccess,
): Promise<Caller> {
  if (findAccount === undefined || !JWT.test(secret)) return authenticate(network, secret)
  const account = await findAccount(secret)
  if (account !== null) return authenticateAccount(network, account)
  throw unauthorized('the token is not valid here, has expired or was revoked', 'invalid_token')
}

/**
 * Returns a check whether the caller of a connection still has a valid access token. Callers without such a token have
 * an identity, whose revocation is noticed otherwise.
 */
export function accountCheck(
  { authorization = '' }: IncomingHttpHeaders,
  { findAccount }: GatewayAccess,
): () => Promise<boolean> {
  const [, token = ''] = BEARER.exec(authorization) ?? []
  if (findAccount === undefined || !JWT.test(token)) return async () => true
  return async () => (await findAccount(token)) !== null
}

/** Returns the administrator if the key in `headers` is valid, or if no credentials are required. Errors: 401. */
function requireAdmin(headers: IncomingHttpHeaders, { apiKey, open, by }: GatewayAccess): Caller {
  const admin = by === undefined ? ADMIN : { ...ADMIN, by }
  const key = headers['x-api-key']
  if (key !== undefined && apiKey !== null) {
    const hash = (text: string) => createHash('sha256').update(text).digest()
    if (typeof key === 'string' && timingSafeEqual(hash(key), hash(apiKey))) return admin
    throw unauthorized('the x-api-key is wrong', 'invalid_token')
  }
  if (open) return admin
  throw unauthorized('credentials are missing; send Authorization: Bearer <secret>, or x-api-key')
}

/** `error`: a code of RFC 6750; undefined if there are no credentials, which is not logged as a denial. */
function unauthorized(message: string, error?: string): HttpRefusal {
  const challenge = 'Bearer realm="daicho"'
  if (error === undefined) return new HttpRefusal(401, 'UNAUTHORIZED', message, { challenge })
  const denied = { challenge: `${challenge}, error="${error}"`, denial: { reason: 'UNAUTHORIZED' } }
  return new HttpRefusal(401, 'UNAUTHORIZED', message, denied)
}

/** Converts the error for an unknown secret, so that it is logged and counted like other denials. */
function toDenial(error: unknown): unknown {
  if (!(error instanceof NetworkError) || error.code !== 'IDENTITY_UNKNOWN') return error
  const { code, message } = error
  const challenge = 'Bearer realm="daicho", error="invalid_token"'
  return new HttpRefusal(401, code, message, { challenge, denial: { reason: code } })
}

/**
 * Mounts `/api/…` and `/<network>/api/…`. Networks can be deployed and removed at any time, so paths and their
 * methods are resolved for each request.
 */
export function networkRoutes(app: HttpApp, deps: RouteDeps): void {
  const method = acceptAllMethods(app)
  for (const url of ['/api/*', '/:network/api/*']) {
    app.route({
      method,
      url,
      exposeHeadRoute: false,
      schema: { hide: true },
      handler: async (request, reply) => {
        const answering = answer(request, reply, deps)
        deps.inProgress.add(answering)
        try {
          return await answering
        } catch (error) {
          throw withDetails(toDenial(error))
        } finally {
          deps.inProgress.delete(answering)
        }
      },
    })
  }
}

async function answer(
  request: FastifyRequest,
  reply: FastifyReply,
  { service, access, serverId, ...system }: RouteDeps,
): Promise<FastifyReply> {
  const parts = pathParts(request.url)
  await service.catchUp()
  const isDefault = parts[0] === 'api'
  const { network, aliases } = service.serve(isDefault ? null : (parts[0] ?? ''))
  const caller = await requireCaller(request.headers, network, access)
  const query = request.query as NetworkRequest['query']
  const networkRequest = { request, reply, network, caller, query, serverId }
  const [top = '', id, ...more] = parts.slice(isDefault ? 1 : 2)
  if (top === 'system' && id !== undefined)
    return answerSystem(networkRequest, [id, ...more], system)
  if (top === 'queries' && id !== undefined && more.length === 0) {
    requireMethod(request, ['GET', 'HEAD'])
    return sendListing(reply, await network.query(id, query, caller, disconnection(reply)))
  }
  if (Object.hasOwn(query, 'at')) {
    const message = 'a network shows only its current state; the ledger shows past states'
    throw new HttpRefusal(400, 'REQUEST_INVALID', message)
  }
  const type = aliases.find(top)
  const isHistory = more.length === 1 && more[0] === 'history'
  if (type === null || (more.length > 0 && !isHistory)) {
    const message = `${network.definition.name} has no resources at /${top}`
    throw new NetworkError('TYPE_NOT_FOUND', message)
  }
  if (id === undefined) return answerCollection(networkRequest, type)
  if (isHistory) return answerHistory(networkRequest, type, id)
  if (isAggregation(networkRequest, id)) return answerAggregation(networkRequest, type)
  return answerResource(networkRequest, type, id)
}

/** Returns the decoded segments of a path. A slash within a segment is encoded as `%2F`. Errors: 400. */
function pathParts(url: string): string[] {
  const [path = ''] = url.split('?', 1)
  try {
    const parts = path.split('/').slice(1).map(decodeURIComponent)
    if (parts.at(-1) === '') parts.pop()
    return parts
  } catch {
    throw new HttpRefusal(400, 'URL_MALFORMED', 'the path is not a valid URL')
  }
}

/** Mounts `/networks`, where the administrator lists, deploys, upgrades and removes networks. */
export async function deploymentRoutes(
  app: HttpApp,
  { service, access }: Pick<RouteDeps, 'service' | 'access'>,
): Promise<void> {
  // These routes have their own Fastify scope, because only these paths accept archives.
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    const type = 'application/octet-stream'
    scope.addContentTypeParser(type, async (request: FastifyRequest) => readBody(request))
    const hidden = { schema: { hide: true } }
    scope.get('/networks', hidden, async (request) => {
      requireAdmin(request.headers, access)
      await service.catchUp()
      return service.list()
    })
    scope.post('/networks', hidden, async (request) => {
      const caller = requireAdmin(request.headers, access)
      return service.deploy(requireArchive(request), caller).catch(rethrow)
    })
    scope.delete<{ Params: { name: string } }>(
      '/networks/:name',
      hidden,
      async (request, reply) => {
        const caller = requireAdmin(request.headers, access)
        await service.remove(request.params.name, caller).catch(rethrow)
        return reply.code(204).send()
      },
    )
    scope.put<{ Params: { name: string } }>('/networks/:name', hidden, async (request) => {
      const caller = requireAdmin(request.headers, access)
      const { default: texts } = request.query as { default?: string | string[] }
      const defaults = [texts ?? []].flat().map(requireFieldDefault)
      const { name } = request.params
      return service.upgrade(name, requireArchive(request), { defaults, caller }).catch(rethrow)
    })
  })
}

function rethrow(error: unknown): never {
  throw withDetails(error)
}

function requireArchive({ body }: FastifyRequest): Buffer {
  if (Buffer.isBuffer(body)) return body
  const message = 'send an archive as application/octet-stream'
  throw new HttpRefusal(400, 'NETWORK_UNREADABLE', message)
}

/** Parses `Type.field=value`. Errors: 400. */
function requireFieldDefault(text: string): FieldDefault {
  const parsed = parseFieldDefault(text)
  if (parsed !== null) return parsed
  throw new HttpRefusal(400, 'REQUEST_INVALID', 'a default must have the form Type.field=value')
}

/** Mounts `/explorer` and `/<network>/explorer`: Swagger UI for a network, and its OpenAPI document. */
export function explorerRoutes(app: HttpApp, service: GatewayService, style: NamespaceStyle): void {
  servePageFiles(app, assetFiles(EXPLORER_ASSETS))
  const find = async (request: FastifyRequest) => {
    await service.catchUp()
    const { network: name } = request.params as { network?: string }
    try {
      const prefix = name === undefined ? '' : `/${encodeURIComponent(name)}`
      return { served: service.serve(name ?? null), prefix }
    } catch (error) {
      throw withDetails(error)
    }
  }
  const page = async (request: FastifyRequest, reply: FastifyReply) => {
    const { served, prefix } = await find(request)
    const { name } = served.network.definition
    const path = `${prefix}/explorer`
    const html = swaggerPage({
      title: `${name}: explorer`,
      path,
      links: [{ href: path, text: name }],
      assets: EXPLORER_ASSETS,
      document: `${path}/openapi.json`,
    })
    return reply.headers(SECURITY_HEADERS).type('text/html; charset=utf-8').send(html)
  }
  const hidden = { schema: { hide: true } }
  app.get('/doc', hidden, async (_request, reply) => reply.redirect('/explorer'))
  for (const prefix of ['', '/:network']) {
    app.get(`${prefix}/explorer`, hidden, page)
    app.get(`${prefix}/explorer/`, hidden, page)
    app.get(`${prefix}/explorer/openapi.json`, hidden, async (request) => {
      const { served, prefix: before } = await find(request)
      return openApiDocument(served, `${before}/api`, style)
    })
  }
}
