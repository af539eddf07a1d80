import type { FastifyReply, FastifyRequest } from 'fastify'
import { isJsonObject } from '../../base/json.ts'
import { disconnection } from '../../http/index.ts'
import {
  issueIdentity,
  NetworkError,
  type Problem,
  pointer,
  systemType,
} from '../../network/index.ts'
import { requireObjectBody } from './bodies.ts'
import { answerRead, type NetworkRequest, requireMethod, sendListing } from './resources.ts'

export interface SystemDeps {
  readonly version: string
  /** Returns a secret for a new identity. */
  readonly randomSecret: () => string
}

/** Answers `/api/system/…`; `parts` are the segments after `system`. */
export async function answerSystem(
  networkRequest: NetworkRequest,
  parts: readonly string[],
  { version, randomSecret }: SystemDeps,
): Promise<FastifyReply> {
  const { request, reply, network, caller } = networkRequest
  const [name, id, verb] = parts
  if (parts.length === 1) {
    switch (name) {
      case 'ping': {
        requireMethod(request, ['GET', 'HEAD'])
        const { participant, identity } = caller
        return reply.send({
          version,
          participant: `${participant.type}#${participant.id}`,
          identity: identity === null ? null : `${systemType('Identity')}#${identity}`,
        })
      }
      case 'archive':
        return sendArchive(networkRequest)
      case 'query':
        return answerQuery(networkRequest)
    }
  }
  if (name === 'historian' && parts.length <= 2) {
    return answerSystemRead(networkRequest, 'HistorianRecord', id)
  }
  if (name !== 'identities' || parts.length > 3) throw noSuchPath()
  if (parts.length === 2 && id === 'issue') {
    requireMethod(request, ['POST'])
    const { participant, userID } = requireTexts(request, ['participant', 'userID'])
    const identity = { participant, name: userID, canIssue: requireIssuerFlag(request) }
    const userSecret = randomSecret()
    await issueIdentity(network, identity, userSecret, caller)
    return reply.send({ userID, userSecret })
  }
  if (parts.length === 2 && id === 'bind') {
    requireMethod(request, ['POST'])
    const binding = requireTexts(request, ['participant', 'certificate'])
    await network.change({ kind: 'bindIdentity', ...binding }, caller)
    return reply.code(204).send()
  }
  if (parts.length < 3) return answerSystemRead(networkRequest, 'Identity', id)
  if (verb !== 'revoke' || id === undefined) throw noSuchPath()
  requireMethod(request, ['POST'])
  await network.change({ kind: 'revokeIdentity', id }, caller)
  return reply.code(204).send()
}

function answerSystemRead(
  networkRequest: NetworkRequest,
  name: string,
  id: string | undefined,
): Promise<FastifyReply> {
  const type = networkRequest.network.definition.model.type(systemType(name))
  if (type === null) throw noSuchPath()
  return answerRead(networkRequest, type, id ?? null)
}

/** Sends the deployed archive, byte for byte. */
async function sendArchive({
  request,
  reply,
  network,
  caller,
}: NetworkRequest): Promise<FastifyReply> {
  requireMethod(request, ['GET', 'HEAD'])
  const bytes = await network.archive(caller)
  const { name, version, sha256 } = network.definition
  return reply
    .header('etag', `"${sha256}"`)
    .header('content-disposition', `attachment; filename="${name}@${version}.bna"`)
    .type('application/octet-stream')
    .send(bytes)
}

/** Sends the results of the query in the body. */
async function answerQuery(networkRequest: NetworkRequest): Promise<FastifyReply> {
  const { request, reply, network, caller, query } = networkRequest
  requireMethod(request, ['POST'])
  const { query: text, parameters = {}, ...others } = requireObjectBody(request)
  const [unknown] = Object.keys(others)
  const invalid = (path: string, code: Problem['code'], message: string) =>
    new NetworkError('PARAMETER_INVALID', message, { problems: [{ path, code, message }] })
  if (typeof text !== 'string')
    throw invalid('/query', 'MISSING', 'query must be a string: SELECT …')
  if (!isJsonObject(parameters)) {
    throw invalid('/parameters', 'WRONG_TYPE', 'parameters must be an object')
  }
  if (unknown !== undefined) {
    const message = `unknown member ${unknown.slice(0, 64)}; use query and parameters`
    throw invalid(pointer('', unknown), 'UNKNOWN_PROPERTY', message)
  }
  return sendListing(
    reply,
    await network.queryText(text, parameters, query, caller, disconnection(reply)),
  )
}

/** Whether the body requests the right to issue identities: `issuer`, or Composer's `options.issuer`. */
function requireIssuerFlag(request: FastifyRequest): boolean {
  const { issuer, options = {} } = requireObjectBody(request)
  const values = isJsonObject(options) ? [issuer, options.issuer] : [options]
  if (values.every((value) => value === undefined || typeof value === 'boolean')) {
    return values.includes(true)
  }
  const message = 'issuer must be true or false'
  throw new NetworkError('RESOURCE_INVALID', message, {
    problems: [{ path: '/issuer', code: 'WRONG_TYPE', message }],
  })
}

/** Returns the members `names` of the body. Errors: RESOURCE_INVALID with all members that are not strings. */
function requireTexts<Name extends string>(
  request: FastifyRequest,
  names: readonly Name[],
): Record<Name, string> {
  const body = requireObjectBody(request)
  const problems: Problem[] = []
  const entries = names.map((name) => {
    const value = body[name]
    if (typeof value === 'string') return [name, value] as const
    const code = value === undefined ? 'MISSING' : 'WRONG_TYPE'
    problems.push({ path: `/${name}`, code, message: `${name} must be a string` })
    return [name, ''] as const
  })
  if (problems.length > 0) {
    const message = problems.map((problem) => problem.message).join('; ')
    throw new NetworkError('RESOURCE_INVALID', message, { problems })
  }
  // The cast is safe, because there is one entry for each name.
  return Object.fromEntries(entries) as Record<Name, string>
}

function noSuchPath(): NetworkError {
  return new NetworkError('TYPE_NOT_FOUND', 'unknown path below /system')
}
