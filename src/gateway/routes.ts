import type { FastifyReply, FastifyRequest } from 'fastify'
import { type HttpApp, HttpRefusal, readBody, takeAllMethods } from '../http/index.ts'
import { type FieldDefault, NetworkError, parseFieldDefault } from '../network/index.ts'
import { adminOf, callerOf, type Doors } from './callers.ts'
import { detailed } from './errors.ts'
import { sendListing } from './replies.ts'
import {
  allow,
  answerCollection,
  answerResource,
  type NetworkRequest,
} from './resource-requests.ts'
import type { GatewayService } from './service.ts'
import { answerSystem, type SystemDeps } from './system-requests.ts'

/** What the routes are made of. */
export interface RouteDeps extends SystemDeps {
  readonly service: GatewayService
  readonly doors: Doors
  readonly serverId: number
  /** What is being answered: a client that leaves does not end the work for it. */
  readonly underWay: Set<Promise<unknown>>
}

/**
 * Mounts `/api/…` and `/<network>/api/…`. Types come and go with networks, so what a path means is
 * looked up when it is asked.
 */
export function networkRoutes(app: HttpApp, deps: RouteDeps): void {
  const method = takeAllMethods(app)
  for (const url of ['/api/*', '/:network/api/*']) {
    app.route({
      // Which ones a path takes is looked up too.
      method,
      url,
      exposeHeadRoute: false,
      schema: { hide: true },
      handler: async (request, reply) => {
        const answering = answer(request, reply, deps)
        deps.underWay.add(answering)
        try {
          return await answering
        } catch (error) {
          if (error instanceof HttpRefusal && error.status === 401) challenge(reply)
          throw refusalOf(error, reply)
        } finally {
          deps.underWay.delete(answering)
        }
      },
    })
  }
}

function challenge(reply: FastifyReply): void {
  reply.header('www-authenticate', 'Bearer realm="daicho"')
}

function refusalOf(error: unknown, reply: FastifyReply): unknown {
  if (error instanceof NetworkError && error.code === 'IDENTITY_UNKNOWN') challenge(reply)
  return detailed(error)
}

async function answer(
  request: FastifyRequest,
  reply: FastifyReply,
  { service, doors, serverId, underWay: _, ...system }: RouteDeps,
): Promise<FastifyReply> {
  const parts = partsOf(request.url)
  const isDefault = parts[0] === 'api'
  const { network, aliases } = service.serve(isDefault ? null : (parts[0] ?? ''))
  const caller = await callerOf(request.headers, network, doors)
  // Parsed by Fastify into a flat object of texts and lists of them.
  const query = request.query as NetworkRequest['query']
  const asked = { request, reply, network, caller, query, serverId }
  const [top = '', id, ...more] = parts.slice(isDefault ? 1 : 2)
  if (top === 'system' && id !== undefined) return answerSystem(asked, [id, ...more], system)
  if (top === 'queries' && id !== undefined && more.length === 0) {
    allow(request, ['GET', 'HEAD'])
    return sendListing(reply, await network.query({ name: id, query }, caller))
  }
  const type = aliases.find(top)
  if (type === null || more.length > 0) {
    throw new NetworkError(
      'TYPE_NOT_FOUND',
      `${network.definition.name} has no resources at /${top}`,
    )
  }
  if (id === undefined) return answerCollection(asked, type)
  return answerResource(asked, type, id)
}

/** The decoded parts of a path. A slash inside a part is spelt `%2F`. Errors: 400. */
function partsOf(url: string): string[] {
  const query = url.indexOf('?')
  const path = query === -1 ? url : url.slice(0, query)
  try {
    const parts = path.split('/').slice(1).map(decodeURIComponent)
    if (parts.at(-1) === '') parts.pop()
    return parts
  } catch {
    throw new HttpRefusal(400, 'URL_MALFORMED', 'the path is not a valid URL')
  }
}

interface DeploymentDeps extends Pick<RouteDeps, 'service' | 'doors'> {
  /** Called when a network was removed. */
  readonly onRemoved: (name: string) => void
}

/** Mounts `/networks`: what is deployed, deploying and removing, for the administrator. */
export async function deploymentRoutes(
  app: HttpApp,
  { service, doors, onRemoved }: DeploymentDeps,
): Promise<void> {
  // In a scope of its own: archives are taken here and nowhere else.
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    const type = 'application/octet-stream'
    scope.addContentTypeParser(type, async (request: FastifyRequest) => readBody(request))
    scope.get('/networks', { schema: { hide: true } }, async (request) => {
      adminOf(request.headers, doors)
      return service.list()
    })
    scope.post('/networks', { schema: { hide: true } }, async (request) => {
      adminOf(request.headers, doors)
      return service.deploy(archiveIn(request)).catch(rethrow)
    })
    scope.delete<{ Params: { name: string } }>(
      '/networks/:name',
      { schema: { hide: true } },
      async (request, reply) => {
        adminOf(request.headers, doors)
        const { name } = request.params
        await service.remove(name).catch(rethrow)
        onRemoved(name)
        return reply.code(204).send()
      },
    )
    scope.put<{ Params: { name: string } }>(
      '/networks/:name',
      { schema: { hide: true } },
      async (request) => {
        adminOf(request.headers, doors)
        const { default: given } = request.query as { default?: string | string[] }
        const defaults = [given ?? []].flat().map(fieldDefault)
        return service.upgrade(request.params.name, archiveIn(request), defaults).catch(rethrow)
      },
    )
  })
}

function rethrow(error: unknown): never {
  throw detailed(error)
}

function archiveIn({ body }: FastifyRequest): Buffer {
  if (Buffer.isBuffer(body)) return body
  const message = 'send an archive as application/octet-stream'
  throw new HttpRefusal(400, 'NETWORK_UNREADABLE', message)
}

/** Errors: 400. */
function fieldDefault(text: string): FieldDefault {
  const parsed = parseFieldDefault(text)
  if (parsed !== null) return parsed
  throw new HttpRefusal(400, 'REQUEST_INVALID', 'a default is written Type.field=value')
}
