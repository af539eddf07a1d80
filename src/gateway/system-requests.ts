import type { FastifyReply } from 'fastify'
import {
  bindIdentity,
  issueIdentity,
  type Model,
  NetworkError,
  type Problem,
  revokeIdentity,
  systemType,
  type TypeDeclaration,
} from '../network/index.ts'
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
    allow(request, reply, ['GET', 'HEAD'])
    const { participant, identity } = caller
    return reply.send({
      version: deps.version,
      participant: `${participant.type}#${participant.id}`,
      identity: identity === null ? null : `${systemType('Identity')}#${identity}`,
    })
  }
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
  if (parts.length < 3) allow(request, reply, ['GET', 'HEAD'])
  if (verb !== 'revoke' || id === undefined) throw noSuchPath()
  allow(request, reply, ['POST'])
  await revokeIdentity(network, id, caller)
  return reply.code(204).send()
}

async function issue(asked: NetworkRequest, { randomSecret }: SystemDeps): Promise<FastifyReply> {
  const { request, reply, network, caller } = asked
  allow(request, reply, ['POST'])
  const { participant, userID } = textsOf(request, ['participant', 'userID'])
  const userSecret = randomSecret()
  await issueIdentity(network, { participant, name: userID }, userSecret, caller)
  return reply.send({ userID, userSecret })
}

async function bind(asked: NetworkRequest): Promise<FastifyReply> {
  const { request, reply, network, caller } = asked
  allow(request, reply, ['POST'])
  const { participant, certificate } = textsOf(request, ['participant', 'certificate'])
  await bindIdentity(network, { participant, certificate }, caller)
  return reply.code(204).send()
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
