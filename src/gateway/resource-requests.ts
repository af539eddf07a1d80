import type { FastifyReply, FastifyRequest } from 'fastify'
import { isJsonObject, type Json, type JsonObject } from '../base/json.ts'
import { HttpRefusal, methodRefusal } from '../http/index.ts'
import {
  type BusinessNetwork,
  type Caller,
  type Model,
  mergePatch,
  NetworkError,
  type Problem,
  type TypeDeclaration,
} from '../network/index.ts'
import { Form } from './forms.ts'
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

/** Answers a request for all resources of `type`: `GET`, `POST`, and `PUT` and `DELETE` of several. */
export async function answerCollection(
  asked: NetworkRequest,
  type: TypeDeclaration,
): Promise<FastifyReply> {
  const { request, reply, network, caller, query, serverId } = asked
  const changes = type.kind === 'transaction' ? [] : ['PUT', 'DELETE']
  allow(request, ['GET', 'HEAD', 'POST', ...changes])
  switch (request.method) {
    case 'PUT': {
      const made = await network.updateAll(type, listOf(request), caller)
      place(reply, made, serverId)
      return reply.send(made.resources)
    }
    case 'DELETE': {
      const made = await network.removeAll(type, idsOf(request), caller)
      place(reply, made, serverId)
      return reply.code(204).removeHeader('etag').send()
    }
    case 'POST':
      break
    default:
      return sendListing(reply, await network.list(type, query, caller))
  }
  const body = bodyOf(request, asked.network.definition.model, type)
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
  allow(request, ['GET', 'HEAD', ...changes])
  const expects = revisionTest(request.headers['if-match'])
  switch (request.method) {
    case 'PUT':
    case 'PATCH': {
      const body = objectOf(bodyOf(request))
      const isPatch = request.method === 'PATCH'
      const next = isPatch ? (before: JsonObject) => mergePatch(before, body) : body
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
  allow(request, ['GET', 'HEAD'])
  if (id === null) return sendListing(reply, await network.list(type, query, caller))
  const { text, revision } = await network.read(type, id, query, caller)
  return sendText(reply, text, revision)
}

/** Errors: 405, with `Allow`, for a verb that is not one of `methods`. */
export function allow({ method }: FastifyRequest, methods: readonly string[]): void {
  if (!methods.includes(method)) throw methodRefusal(methods)
}

/**
 * The JSON of the body; of a form, where it may be one, as an instance of `type`.
 * Errors: RESOURCE_INVALID without one, 415 for a form elsewhere.
 */
export function bodyOf({ body }: FastifyRequest, model?: Model, type?: TypeDeclaration): Json {
  if (body instanceof Form) {
    if (model !== undefined && type !== undefined) return body.instanceOf(type, model)
    throw new HttpRefusal(415, 'CONTENT_TYPE_UNKNOWN', 'this path takes no form: send JSON')
  }
  // Parsed by the strict parser, so it is JSON; without a body it is undefined or null.
  if (body === undefined || body === null) throw invalidBody('MISSING', 'send a body of JSON')
  return body as Json
}

/** The object that a body is. Errors: RESOURCE_INVALID. */
export function objectOf(body: Json): JsonObject {
  if (isJsonObject(body)) return body
  throw invalidBody('WRONG_TYPE', 'must be an object')
}

/** The array of a request for several resources. Errors: RESOURCE_INVALID, 400 with `If-Match`. */
function listOf(request: FastifyRequest): readonly Json[] {
  if (request.headers['if-match'] !== undefined) {
    throw new HttpRefusal(400, 'REQUEST_INVALID', 'If-Match is for one resource: use its own path')
  }
  const body = bodyOf(request)
  if (Array.isArray(body)) return body
  throw invalidBody('WRONG_TYPE', 'must be an array')
}

/** The ids in a body. Errors: as of `listOf`. */
function idsOf(request: FastifyRequest): string[] {
  return listOf(request).map((id, index) => {
    if (typeof id === 'string') return id
    throw invalidBody('WRONG_TYPE', 'must be an id, a text', `/${index}`)
  })
}

function invalidBody(code: Problem['code'], message: string, path = ''): NetworkError {
  return new NetworkError('RESOURCE_INVALID', path === '' ? message : `${path}: ${message}`, {
    problems: [{ path, code, message }],
  })
}
