import type { FastifyReply, FastifyRequest } from 'fastify'
import { CodedError } from '../../base/coded-error.ts'
import { disconnection, methodRefusal, ReplyStream, toPlainTag } from '../../http/index.ts'
import {
  type BusinessNetwork,
  type Caller,
  type ExpectedRevisions,
  type Listing,
  type Made,
  type NetworkChange,
  NetworkError,
  parsePosition,
  positionText,
  type TypeDeclaration,
} from '../../network/index.ts'
import {
  hasBracket,
  parseArray,
  requireArrayText,
  requireBodyText,
  requireIdsBody,
  requireObjectText,
} from './bodies.ts'

export interface NetworkRequest {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly network: BusinessNetwork
  readonly caller: Caller
  /** The parsed query: a flat object of strings and lists of strings. */
  readonly query: Readonly<Record<string, unknown>>
  /** Id of the node, for `Ledger-Position`. */
  readonly serverId: number
}

/** Maximum transactions in the list of one request. */
const SUBMITTED_MAX = 1_000
/** Characters of the results of a list of transactions after which no further transaction is submitted. */
const RESULTS_CHARACTERS_MAX = 16 * 1024 * 1024
const JSON_TYPE = 'application/json; charset=utf-8'
/** Bytes from which on a list is streamed. */
const WHOLE_BYTES_MAX = 1_048_576

export async function answerCollection(
  networkRequest: NetworkRequest,
  type: TypeDeclaration,
): Promise<FastifyReply> {
  const { request, reply, network, caller, query } = networkRequest
  const { qualifiedName: name } = type
  const isTransaction = type.kind === 'transaction'
  requireMethod(request, ['GET', 'HEAD', 'POST', ...(isTransaction ? [] : ['PUT', 'DELETE'])])
  switch (request.method) {
    case 'PUT': {
      const text = requireArrayText(request)
      return sendMade(networkRequest, { kind: 'updateAll', type: name, text })
    }
    case 'DELETE':
      return sendRemoved(networkRequest, {
        kind: 'remove',
        type: name,
        ids: requireIdsBody(request),
        expects: null,
      })
    case 'POST':
      break
    default:
      return sendListing(reply, await network.list(type, query, caller, disconnection(reply)))
  }
  const text = requireBodyText(request, network.definition.model, type)
  if (!isTransaction) return sendMade(networkRequest, { kind: 'create', type: name, text })
  const answer = hasBracket(text, '[')
    ? await submitAll(networkRequest, type, requireSubmitted(text))
    : await submitOne(networkRequest, type, text)
  return sendResult(reply, answer)
}

/**
 * Sends the JSON of a result. If there is no room for a long reply, a recorded change gets 204 without its result, because
 * a client repeats a change that was refused.
 */
function sendResult(reply: FastifyReply, text: string): FastifyReply {
  try {
    reply.server.replyBudget.require(Buffer.byteLength(text))
  } catch (error) {
    if (!reply.hasHeader('ledger-position')) throw error
    return reply.code(204).send()
  }
  return reply.type(JSON_TYPE).send(text)
}

/** Returns the result of a transaction as JSON; `text` is the transaction. */
async function submitOne(
  networkRequest: NetworkRequest,
  type: TypeDeclaration,
  text: string,
): Promise<string> {
  const { network, caller } = networkRequest
  const { reply: answer, recorded } = await network.submit(type, text, caller)
  if (recorded !== null) withPosition(networkRequest, recorded)
  return answer
}

/** Returns the texts of the transactions in a list. Errors: UNIT_TOO_LARGE, LIST_EMPTY, StrictJsonError. */
function requireSubmitted(text: string): string[] {
  const list = parseArray(text)
  if (list.length > SUBMITTED_MAX) {
    const message = `one request can submit at most ${SUBMITTED_MAX} transactions, but this request has ${list.length}`
    throw new NetworkError('UNIT_TOO_LARGE', message)
  }
  if (list.length === 0) throw new NetworkError('LIST_EMPTY', 'the list is empty')
  return list.map((each) => JSON.stringify(each))
}

/**
 * Submits the transactions in `list` one after the other. As in Composer, each is a separate request: if one fails, the
 * transactions before it are recorded, and those after it are not submitted.
 */
async function submitAll(
  networkRequest: NetworkRequest,
  type: TypeDeclaration,
  list: readonly string[],
): Promise<string> {
  const answers: string[] = []
  let characters = 0
  for (const [at, each] of list.entries()) {
    try {
      if (characters > RESULTS_CHARACTERS_MAX) {
        const message = `the results have more than ${RESULTS_CHARACTERS_MAX} characters`
        throw new NetworkError('UNIT_TOO_LARGE', message)
      }
      const answer = await submitOne(networkRequest, type, each)
      answers.push(answer)
      characters += answer.length
    } catch (error) {
      if (!(error instanceof CodedError)) throw error
      const message = `transaction ${at} of the list failed, and the ${at} before it are recorded: ${error.message}`
      if (!(error instanceof NetworkError))
        throw new CodedError(String(error.code), message, { cause: error })
      const problems = error.problems.map((each) => ({ ...each, path: `/${at}${each.path}` }))
      throw new NetworkError(error.code, message, { problems, cause: error })
    }
  }
  return `[${answers.join(',')}]`
}

export async function answerResource(
  networkRequest: NetworkRequest,
  type: TypeDeclaration,
  id: string,
): Promise<FastifyReply> {
  const { request } = networkRequest
  const { qualifiedName: name } = type
  const changes = type.kind === 'transaction' ? [] : ['PUT', 'PATCH', 'DELETE']
  requireMethod(request, ['GET', 'HEAD', ...changes])
  const expects = parseIfMatch(request.headers['if-match'])
  switch (request.method) {
    case 'PUT':
    case 'PATCH': {
      const text = requireObjectText(request)
      const isPatch = request.method === 'PATCH'
      return sendMade(networkRequest, { kind: 'update', type: name, id, text, isPatch, expects })
    }
    case 'DELETE':
      return sendRemoved(networkRequest, { kind: 'remove', type: name, ids: [id], expects })
    default:
      return sendResource(networkRequest, type, id)
  }
}

/** Answers a request for a read-only list or, if `id` is not null, for the resource `id` in this list. */
export async function answerRead(
  networkRequest: NetworkRequest,
  type: TypeDeclaration,
  id: string | null,
): Promise<FastifyReply> {
  const { request, reply, network, caller, query } = networkRequest
  requireMethod(request, ['GET', 'HEAD'])
  if (id === null) {
    return sendListing(reply, await network.list(type, query, caller, disconnection(reply)))
  }
  return sendResource(networkRequest, type, id)
}

/** Checks that the method of a request is one of `methods`. Errors: 405 with the header `Allow`. */
export function requireMethod({ method }: FastifyRequest, methods: readonly string[]): void {
  if (!methods.includes(method)) throw methodRefusal(methods)
}

/** Sends a list, with the total number of matches in `X-Total-Count`. */
export async function sendListing(reply: FastifyReply, listing: Listing): Promise<FastifyReply> {
  reply.header('x-total-count', listing.total).type(JSON_TYPE)
  const parts = listTexts(listing)
  try {
    return reply.send(await toPayload(parts, reply))
  } catch (error) {
    await parts.return()
    throw error
  }
}

/** Returns a short list as a whole. A longer list starts only now, so that an early error still gets an error status. */
async function toPayload(
  parts: AsyncGenerator<string[], void>,
  { server: { replyBudget }, raw }: FastifyReply,
): Promise<string | ReplyStream> {
  const texts: string[] = []
  for (let bytes = 0; bytes < WHOLE_BYTES_MAX; ) {
    const part = await parts.next()
    if (part.done === true) {
      replyBudget.set(raw, 0)
      return texts.join('')
    }
    for (const text of part.value) bytes += Buffer.byteLength(text)
    // Counted at once, because many lists can begin before the first of them is sent.
    replyBudget.require(bytes)
    replyBudget.set(raw, bytes)
    texts.push(...part.value)
  }
  async function* all(): AsyncGenerator<string[]> {
    // From here on, the stream counts its parts.
    replyBudget.set(raw, 0)
    yield texts
    yield* parts
  }
  return new ReplyStream(all())
}

/** Yields the parts of the JSON of a list. A resource that is a page of its own is not copied. */
async function* listTexts({ pages }: Listing): AsyncGenerator<string[], void> {
  let separator = '['
  for await (const page of pages) {
    if (page.length === 0) continue
    yield [separator, page.splice(0).join(',')]
    separator = ','
  }
  yield [separator === '[' ? '[]' : ']']
}

async function sendResource(
  { reply, network, caller, query }: NetworkRequest,
  type: TypeDeclaration,
  id: string,
): Promise<FastifyReply> {
  const { text, revision } = await network.read(type, id, query, caller, disconnection(reply))
  return reply.header('etag', formatEtag(revision)).type(JSON_TYPE).send(text)
}

/** Sets `Ledger-Position` and `ETag` to the position of a recorded change. */
function withPosition(
  { reply, serverId }: NetworkRequest,
  { position, revision }: Pick<Made, 'position' | 'revision'>,
): FastifyReply {
  return reply
    .header('ledger-position', `${serverId}/${positionText(position)}`)
    .header('etag', formatEtag(revision))
}

/** Makes a change, and sends the resources that it made. */
async function sendMade(
  networkRequest: NetworkRequest,
  change: NetworkChange,
): Promise<FastifyReply> {
  const made = await networkRequest.network.change(change, networkRequest.caller)
  return sendResult(withPosition(networkRequest, made), made.reply)
}

async function sendRemoved(
  networkRequest: NetworkRequest,
  removal: NetworkChange,
): Promise<FastifyReply> {
  const result = await networkRequest.network.change(removal, networkRequest.caller)
  return withPosition(networkRequest, result).code(204).removeHeader('etag').send()
}

function formatEtag(revision: number): string {
  return `"${positionText(revision)}"`
}

/**
 * Returns the revisions in `If-Match`, or null if the header is missing or `*`. Weak tags match no revision (RFC
 * 9110, section 13.1.1).
 */
function parseIfMatch(header: string | undefined): ExpectedRevisions {
  if (header === undefined || header.trim() === '*') return null
  return header.split(',').flatMap((tag) => {
    const [, position = ''] = /^"(.*)"$/.exec(tag.trim()) ?? []
    return parsePosition(toPlainTag(position)) ?? []
  })
}
