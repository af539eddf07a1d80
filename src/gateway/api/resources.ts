import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { HttpRefusal, methodRefusal } from '../../http/index.ts'
import {
  type BusinessNetwork,
  type Caller,
  type ChangeRequest,
  type ExpectedRevisions,
  type Listing,
  type Made,
  type Model,
  NetworkError,
  type Problem,
  parsePosition,
  positionText,
  type TypeDeclaration,
} from '../../network/index.ts'
import { Form } from './forms.ts'

/** A request to a network, and its caller. */
export interface NetworkRequest {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly network: BusinessNetwork
  readonly caller: Caller
  /** Parsed by Fastify: a flat object of texts and lists of texts. */
  readonly query: Readonly<Record<string, unknown>>
  /** Id of the node, for `Ledger-Position`. */
  readonly serverId: number
}

const JSON_TYPE = 'application/json; charset=utf-8'
/** Longer lists are sent while they are read. */
const ROWS_AT_ONCE = 500

/** Answers a request for all resources of `type`. */
export async function answerCollection(
  asked: NetworkRequest,
  type: TypeDeclaration,
): Promise<FastifyReply> {
  const { request, reply, network, caller, query } = asked
  const { qualifiedName: name } = type
  const isTransaction = type.kind === 'transaction'
  allow(request, ['GET', 'HEAD', 'POST', ...(isTransaction ? [] : ['PUT', 'DELETE'])])
  switch (request.method) {
    case 'PUT': {
      const made = await network.change(
        { kind: 'updateAll', type: name, body: listOf(request) },
        caller,
      )
      return withPosition(asked, made).send(made.resources)
    }
    case 'DELETE':
      return sendRemoved(asked, { kind: 'remove', type: name, ids: idsOf(request), expects: null })
    case 'POST':
      break
    default:
      return sendListing(reply, await network.list(type, query, caller))
  }
  const body = bodyOf(request, network.definition.model, type)
  if (isTransaction) {
    const { reply: answer, recorded } = await network.submit(type, body, caller)
    if (recorded !== null) withPosition(asked, recorded)
    // As text: a returned number or text is JSON, too.
    return reply.type(JSON_TYPE).send(JSON.stringify(answer))
  }
  const made = await network.change({ kind: 'create', type: name, body }, caller)
  return withPosition(asked, made).send(Array.isArray(body) ? made.resources : made.resources[0])
}

/** Answers a request for one resource of `type`. */
export async function answerResource(
  asked: NetworkRequest,
  type: TypeDeclaration,
  id: string,
): Promise<FastifyReply> {
  const { request, network, caller } = asked
  const { qualifiedName: name } = type
  const changes = type.kind === 'transaction' ? [] : ['PUT', 'PATCH', 'DELETE']
  allow(request, ['GET', 'HEAD', ...changes])
  const expects = expectedRevisions(request.headers['if-match'])
  switch (request.method) {
    case 'PUT':
    case 'PATCH': {
      const body = objectOf(bodyOf(request))
      const isPatch = request.method === 'PATCH'
      const made = await network.change(
        { kind: 'update', type: name, id, body, isPatch, expects },
        caller,
      )
      return withPosition(asked, made).send(made.resources[0])
    }
    case 'DELETE':
      return sendRemoved(asked, { kind: 'remove', type: name, ids: [id], expects })
    default:
      return sendResource(asked, type, id)
  }
}

/** Answers a request for a read-only list (`id` is null) or one of its resources. */
export async function answerReading(
  asked: NetworkRequest,
  type: TypeDeclaration,
  id: string | null,
): Promise<FastifyReply> {
  const { request, reply, network, caller, query } = asked
  allow(request, ['GET', 'HEAD'])
  if (id === null) return sendListing(reply, await network.list(type, query, caller))
  return sendResource(asked, type, id)
}

/** Errors: 405, with `Allow`, unless the method is one of `methods`. */
export function allow({ method }: FastifyRequest, methods: readonly string[]): void {
  if (!methods.includes(method)) throw methodRefusal(methods)
}

/**
 * Returns the JSON of the body; a form, if one is accepted, as an instance of `type`.
 * Errors: RESOURCE_INVALID without a body, 415 for a form where none is accepted.
 */
export function bodyOf({ body }: FastifyRequest, model?: Model, type?: TypeDeclaration): Json {
  if (body instanceof Form) {
    if (model !== undefined && type !== undefined) return body.instanceOf(type, model)
    throw new HttpRefusal(415, 'CONTENT_TYPE_UNKNOWN', 'this path takes no form: send JSON')
  }
  if (body === undefined || body === null) throw invalidBody('MISSING', 'send a body of JSON')
  // Parsed by the strict parser, so it is JSON.
  return body as Json
}

/** Errors: RESOURCE_INVALID unless `body` is an object. */
export function objectOf(body: Json): JsonObject {
  if (isJsonObject(body)) return body
  throw invalidBody('WRONG_TYPE', 'must be an object')
}

/** Returns the array in the body. Errors: RESOURCE_INVALID, 400 with `If-Match`. */
function listOf(request: FastifyRequest): readonly Json[] {
  if (request.headers['if-match'] !== undefined) {
    throw new HttpRefusal(400, 'REQUEST_INVALID', 'If-Match is for one resource: use its own path')
  }
  const body = bodyOf(request)
  if (Array.isArray(body)) return body
  throw invalidBody('WRONG_TYPE', 'must be an array')
}

/** Returns the ids in the body. Errors: those of `listOf`. */
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

/** Sends a list, with the number of matches in `X-Total-Count`. */
export async function sendListing(reply: FastifyReply, listing: Listing): Promise<FastifyReply> {
  reply.header('x-total-count', listing.total).type(JSON_TYPE)
  const parts = listText(listing)
  if (listing.total <= ROWS_AT_ONCE) {
    let text = ''
    for await (const part of parts) text += part
    return reply.send(text)
  }
  // An error while the first page is read is still answered with a status.
  const first = await parts.next()
  async function* all(): AsyncGenerator<string> {
    if (first.done !== true) yield first.value
    yield* parts
  }
  return reply.send(Readable.from(all()))
}

async function* listText({ pages }: Listing): AsyncGenerator<string, void> {
  let separator = '['
  for await (const page of pages) {
    if (page.length === 0) continue
    yield separator + page.join(',')
    separator = ','
  }
  yield separator === '[' ? '[]' : ']'
}

async function sendResource(
  { reply, network, caller, query }: NetworkRequest,
  type: TypeDeclaration,
  id: string,
): Promise<FastifyReply> {
  const { text, revision } = await network.read(type, id, query, caller)
  return reply.header('etag', etagOf(revision)).type(JSON_TYPE).send(text)
}

/** Sets the headers that tell where a change was recorded. */
function withPosition(
  { reply, serverId }: NetworkRequest,
  { position, revision }: Pick<Made, 'position' | 'revision'>,
): FastifyReply {
  return reply
    .header('ledger-position', `${serverId}/${positionText(position)}`)
    .header('etag', etagOf(revision))
}

async function sendRemoved(asked: NetworkRequest, removal: ChangeRequest): Promise<FastifyReply> {
  const made = await asked.network.change(removal, asked.caller)
  return withPosition(asked, made).code(204).removeHeader('etag').send()
}

function etagOf(revision: number): string {
  return `"${positionText(revision)}"`
}

/**
 * The revisions that `If-Match` names; null without it, or for `*`. Weak tags match none (RFC 9110,
 * 13.1.1).
 */
function expectedRevisions(header: string | undefined): ExpectedRevisions {
  if (header === undefined || header.trim() === '*') return null
  return header.split(',').flatMap((tag) => {
    const [, position = ''] = /^"(.*)"$/.exec(tag.trim()) ?? []
    return parsePosition(position) ?? []
  })
}
