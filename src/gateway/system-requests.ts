import type { FastifyReply } from 'fastify'
import { isJsonObject } from '../base/json.ts'
import {
  bindIdentity,
  issueIdentity,
  type Model,
  NetworkError,
  type Problem,
  pointer,
  revokeIdentity,
  systemType,
  type TypeDeclaration,
} from '../network/index.ts'
import { sendListing } from './replies.ts'
import { allow, answerReading, bodyOf, type NetworkRequest, objectOf } from './resource-requests.ts'

/** What requests about the system need beside the network. */
export interface SystemDeps {
  readonly version: string
  /** A text that nobody can guess. */
  readonly randomSecret: () => string
}

/** Answers `/api/system/…`: `parts` is the path behind it. */
export async function answerSystem(
  asked: NetworkRequest,
  parts: readonly string[],
  deps: SystemDeps,
): Promise<FastifyReply> {
  const { request, reply, network, caller } = asked
  const [what, id, verb] = parts
  const { model } = network.definition
  if (what === 'ping' && parts.length === 1) {
    allow(request, ['GET', 'HEAD'])
    const { participant, identity } = caller
    return reply.send({
      version: deps.version,
      participant: `${participant.type}#${participant.id}`,
      identity: identity === null ? null : `${systemType('Identity')}#${identity}`,
    })
  }
  if (what === 'archive' && parts.length === 1) return archive(asked)
  if (what === 'query' && parts.length === 1) return queryText(asked)
  if (what === 'historian' && parts.length <= 2) {
    return answerReading(asked, systemDeclaration(model, 'HistorianRecord'), id ?? null)
  }
  if (what !== 'identities' || parts.length > 3) throw noSuchPath()
  const isPosted = request.method === 'POST'
  if (parts.length === 2 && id === 'issue') return issue(asked, deps)
  if (parts.length === 2 && id === 'bind') return bind(asked)
  if (parts.length < 3 && !isPosted) {
    return answerReading(asked, systemDeclaration(model, 'Identity'), id ?? null)
  }
  if (parts.length < 3) allow(request, ['GET', 'HEAD'])
  if (verb !== 'revoke' || id === undefined) throw noSuchPath()
  allow(request, ['POST'])
  await revokeIdentity(network, id, caller)
  return reply.code(204).send()
}

/** The deployed archive, byte for byte. */
async function archive({ request, reply, network, caller }: NetworkRequest): Promise<FastifyReply> {
  allow(request, ['GET', 'HEAD'])
  const bytes = await network.archive(caller)
  const { name, version, sha256 } = network.definition
  return reply
    .header('etag', `"${sha256}"`)
    .header('content-disposition', `attachment; filename="${name}@${version}.bna"`)
    .type('application/octet-stream')
    .send(bytes)
}

/** The results of the query in the body. */
async function queryText(asked: NetworkRequest): Promise<FastifyReply> {
  const { request, reply, network, caller, query } = asked
  allow(request, ['POST'])
  const { query: text, parameters = {}, ...others } = objectOf(bodyOf(request))
  const [unknown] = Object.keys(others)
  const problem = (path: string, code: Problem['code'], message: string) =>
    new NetworkError('PARAMETER_INVALID', message, { problems: [{ path, code, message }] })
  if (typeof text !== 'string') throw problem('/query', 'MISSING', 'query must be a text, SELECT …')
  if (!isJsonObject(parameters)) {
    throw problem('/parameters', 'WRONG_TYPE', 'parameters must be an object')
  }
  if (unknown !== undefined) {
    const message = `a query has no member ${unknown.slice(0, 64)}`
    throw problem(pointer('', unknown), 'UNKNOWN_PROPERTY', message)
  }
  return sendListing(reply, await network.queryText({ text, parameters, query }, caller))
}

async function issue(asked: NetworkRequest, { randomSecret }: SystemDeps): Promise<FastifyReply> {
  const { request, reply, network, caller } = asked
  allow(request, ['POST'])
  const { participant, userID } = textsOf(request, ['participant', 'userID'])
  const canIssue = issuerIn(request)
  const userSecret = randomSecret()
  const identity = { participant, name: userID, canIssue }
  await issueIdentity(network, identity, userSecret, caller)
  return reply.send({ userID, userSecret })
}

async function bind(asked: NetworkRequest): Promise<FastifyReply> {
  const { request, reply, network, caller } = asked
  allow(request, ['POST'])
  const { participant, certificate } = textsOf(request, ['participant', 'certificate'])
  await bindIdentity(network, { participant, certificate }, caller)
  return reply.code(204).send()
}

/** Whether a body asks for the right to issue identities: `issuer`, or Composer's `options.issuer`. */
function issuerIn(request: NetworkRequest['request']): boolean {
  const { issuer, options = {} } = objectOf(bodyOf(request))
  const asked = isJsonObject(options) ? [issuer, options.issuer] : [options]
  const wrong = asked.some((value) => value !== undefined && typeof value !== 'boolean')
  if (!wrong) return asked.includes(true)
  const problem = {
    path: '/issuer',
    code: 'WRONG_TYPE',
    message: 'issuer must be true or false',
  } as const
  throw new NetworkError('RESOURCE_INVALID', problem.message, { problems: [problem] })
}

/** The texts of a body by their names. Errors: RESOURCE_INVALID with all that are missing. */
function textsOf<Name extends string>(
  request: NetworkRequest['request'],
  names: readonly Name[],
): Record<Name, string> {
  const body = objectOf(bodyOf(request))
  const problems: Problem[] = []
  const entries = names.map((name) => {
    const value = body[name]
    if (typeof value === 'string') return [name, value] as const
    const code = value === undefined ? 'MISSING' : 'WRONG_TYPE'
    problems.push({ path: `/${name}`, code, message: `${name} must be a text` })
    return [name, ''] as const
  })
  if (problems.length > 0) {
    const message = problems.map((problem) => problem.message).join('; ')
    throw new NetworkError('RESOURCE_INVALID', message, { problems })
  }
  // One entry per name, made just above.
  return Object.fromEntries(entries) as Record<Name, string>
}

function systemDeclaration(model: Model, name: string): TypeDeclaration {
  const type = model.type(systemType(name))
  if (type === null) throw noSuchPath()
  return type
}

function noSuchPath(): NetworkError {
  return new NetworkError('TYPE_NOT_FOUND', 'the system has no such path')
}
