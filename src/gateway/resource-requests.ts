import type { FastifyReply, FastifyRequest } from 'fastify'
import { isJsonObject, type Json, type JsonObject } from '../base/json.ts'
import { HttpRefusal } from '../http/index.ts'
import {
  type BusinessNetwork,
  type Caller,
  mergePatch,
  NetworkError,
  type TypeDeclaration,
} from '../network/index.ts'
import { place, revisionTest, sendListing, sendText } from './replies.ts'

/** A request for resources, and on whose behalf it is made. */
export interface NetworkRequest {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly network: BusinessNetwork
  readonly caller: Caller
  /** Parameters of the query, as they are spelt. */
  readonly query: Readonly<Record<string, unknown>>
  /** Of the node, for `Ledger-Position`. */
  readonly serverId: number
}

/** Answers a request for all resources of `type`: `GET`, `POST`. */
export async function answerCollection(
  asked: NetworkRequest,
  type: TypeDeclaration,
): Promise<FastifyReply> {
  const { request, reply, network, caller, query, serverId } = asked
  allow(request, reply, ['GET', 'HEAD', 'POST'])
  if (request.method !== 'POST') return sendListing(reply, await network.list(type, query, caller))
  const body = bodyOf(request)
  if (type.kind === 'transaction') {
    const { reply: answer, recorded } = await network.submit(type, body, caller)
    if (recorded !== null) place(reply, recorded, serverId)
    // As text: a returned number or text is JSON here as well.
    return reply.type('application/json; charset=utf-8').send(JSON.stringify(answer))
  }
  const made = await network.create(type, body, caller)
  place(reply, made, serverId)
  const [first] = made.resources
  return reply.send(Array.isArray(body) ? made.resources : first)
}

/** Answers a request for one resource of `type`: `GET`, `HEAD`, `PUT`, `PATCH`, `DELETE`. */
export async function answerResource(
  asked: NetworkRequest,
  type: TypeDeclaration,
  id: string,
): Promise<FastifyReply> {
  const { request, reply, network, caller, query, serverId } = asked
  const changes = type.kind === 'transaction' ? [] : ['PUT', 'PATCH', 'DELETE']
  allow(request, reply, ['GET', 'HEAD', ...changes])
  const expects = revisionTest(request.headers['if-match'])
  switch (request.method) {
    case 'PUT':
    case 'PATCH': {
      const body = objectOf(bodyOf(request))
      const isPatch = request.method === 'PATCH'
      const next = (before: JsonObject) => (isPatch ? mergePatch(before, body) : body)
      const made = await network.update(type, id, next, expects, caller)
      place(reply, made, serverId)
      return reply.send(made.resources[0])
    }
    case 'DELETE': {
      const made = await network.remove(type, id, expects, caller)
      place(reply, made, serverId)
      return reply.code(204).removeHeader('etag').send()
    }
    default: {
      const { text, revision } = await network.read(type, id, query, caller)
      return sendText(reply, text, revision)
    }
  }
}

/** Answers a path of what is only read: a list, or one of it. */
export async function answerReading(
  asked: NetworkRequest,
  type: TypeDeclaration,
  id: string | null,
): Promise<FastifyReply> {
  const { request, reply, network, caller, query } = asked
  allow(request, reply, ['GET', 'HEAD'])
  if (id === null) return sendListing(reply, await network.list(type, query, caller))
  const { text, revision } = await network.read(type, id, query, caller)
  return sendText(reply, text, revision)
}

/** Errors: 405, with `Allow`, for a verb that is not one of `methods`. */
export function allow(
  { method }: FastifyRequest,
  reply: FastifyReply,
  methods: readonly string[],
): void {
  if (methods.includes(method)) return
  reply.header('allow', methods.join(', '))
  throw new HttpRefusal(405, 'METHOD_NOT_ALLOWED', `this path takes ${methods.join(', ')}`)
}

/** The JSON of the body. Errors: RESOURCE_INVALID without one. */
export function bodyOf({ body }: FastifyRequest): Json {
  // Parsed by the strict parser, so it is JSON; without a body it is undefined or null.
  if (body === undefined || body === null) {
    const problem = { path: '', code: 'MISSING', message: 'send a body of JSON' } as const
    throw new NetworkError('RESOURCE_INVALID', problem.message, { problems: [problem] })
  }
  return body as Json
}

/** The object that a body is. Errors: RESOURCE_INVALID. */
export function objectOf(body: Json): JsonObject {
  if (isJsonObject(body)) return body
  const problem = { path: '', code: 'WRONG_TYPE', message: 'must be an object' } as const
  throw new NetworkError('RESOURCE_INVALID', problem.message, { problems: [problem] })
}
