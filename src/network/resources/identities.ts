import { createHash } from 'node:crypto'
import type { JsonObject } from '../../base/json.ts'
import type { Where } from '../../filter/index.ts'
import { NetworkError } from '../errors.ts'
import { isA } from '../model/model.ts'
import type { Problem } from '../model/problem.ts'
import {
  relationshipText,
  type Target,
  targetOf,
  targetOfCanonical,
} from '../model/relationship.ts'
import { systemType } from '../model/system.ts'
import type { BusinessNetwork } from './business-network.ts'
import type { Caller } from './caller.ts'
import type { ResourceReader } from './database.ts'
import { invalid } from './instances.ts'
import { objectIn } from './item.ts'

// An identity is a resource like any other, named by the SHA-256 of its secret. The ledger never sees
// the secret, and everyone who has the ledger can tell who holds one.

const IDENTITY = systemType('Identity')
const NETWORK_ADMIN = systemType('NetworkAdmin')
/** How a client names a secret that it made itself and keeps to itself. */
const FINGERPRINT = /^sha256:([0-9a-f]{64})$/
const NAME_LENGTH_MAX = 128
const SECRET_LENGTH_MAX = 256

/** The id of the identity whose secret is `secret`. */
function identityId(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

/** What issuing an identity takes. */
export interface IdentityRequest {
  /** The relationship to the participant that the identity speaks for, as a client wrote it. */
  readonly participant: string
  /** What people call the identity. */
  readonly name: string
  /** Whether the identity gets the right to issue, bind and revoke identities. */
  readonly canIssue: boolean
}

/**
 * Records a new identity of a participant, whose secret is `secret`.
 * Errors: RESOURCE_INVALID, RESOURCE_NOT_FOUND, RESOURCE_EXISTS, ACCESS_DENIED.
 */
export async function issueIdentity(
  network: BusinessNetwork,
  { participant, name, canIssue }: IdentityRequest,
  secret: string,
  caller: Caller,
): Promise<void> {
  const target = participantOf(network, participant, '/participant')
  if (name === '' || name.length > NAME_LENGTH_MAX) {
    const message = `the name of an identity has 1 to ${NAME_LENGTH_MAX} characters`
    throw invalid([{ path: '/userID', code: 'MISSING', message }])
  }
  const fields = { participant: relationshipText(target), identityName: name }
  const identity = { id: identityId(secret), name, state: 'ISSUED', certificate: '', canIssue }
  const action = `create a new identity ${name}`
  await add(network, { verb: 'IssueIdentity', fields, action }, identity, target, caller)
}

/**
 * Records an identity whose secret the client keeps: `certificate` is `sha256:` and the hash of it.
 * Errors: as for `issueIdentity`, and RESOURCE_EXISTS.
 */
export async function bindIdentity(
  network: BusinessNetwork,
  { participant, certificate }: { participant: string; certificate: string },
  caller: Caller,
): Promise<void> {
  const target = participantOf(network, participant, '/participant')
  const [, id] = FINGERPRINT.exec(certificate) ?? []
  if (id === undefined) {
    const message =
      'a certificate is sha256:<64 hexadecimal digits>, the hash of the bearer’s secret'
    throw invalid([{ path: '/certificate', code: 'PATTERN_MISMATCH', message }])
  }
  const fields = { participant: relationshipText(target), certificate }
  const identity = { id, name: target.id, state: 'BOUND', certificate, canIssue: false }
  const action = `bind an identity of ${target.type}#${target.id}`
  await add(network, { verb: 'BindIdentity', fields, action }, identity, target, caller)
}

/** Takes an identity its right to speak, for good. Errors: RESOURCE_NOT_FOUND, ACCESS_DENIED. */
export async function revokeIdentity(
  network: BusinessNetwork,
  id: string,
  caller: Caller,
): Promise<void> {
  const target = { type: IDENTITY, id }
  const decide = async (state: ResourceReader) => {
    const stored = await state.read(target)
    const identity = stored === null ? null : objectIn(stored.text)
    const participant = targetOfCanonical(String(identity?.participant))
    await requireIssuer(network, {
      state,
      caller,
      participant,
      action: `revoke the identity ${id}`,
    })
    if (identity === null) {
      throw new NetworkError('RESOURCE_NOT_FOUND', `Object with ID '${id}' does not exist`)
    }
    const resource = { ...identity, state: 'REVOKED' }
    const fields = { identity: relationshipText(target) }
    return { fields, writes: [{ kind: 'update', target, resource } as const] }
  }
  await network.submitSystem('RevokeIdentity', decide, caller)
}

/**
 * On whose behalf the bearer of `secret` speaks.
 * Errors: IDENTITY_UNKNOWN, which does not tell a revoked identity from one that never was.
 */
export async function callerWith(network: BusinessNetwork, secret: string): Promise<Caller> {
  const unknown = new NetworkError('IDENTITY_UNKNOWN', 'this is no identity of the network')
  if (secret.length > SECRET_LENGTH_MAX) throw unknown
  const id = identityId(secret)
  const identity = await network.lookUp({ type: IDENTITY, id })
  if (identity === null || identity.state === 'REVOKED') throw unknown
  const participant = targetOfCanonical(String(identity.participant))
  if (participant === null || (await network.lookUp(participant)) === null) throw unknown
  return { participant, identity: id }
}

/** Whether the identity of `caller`, who was known once, has been revoked since. */
export async function isRevoked(network: BusinessNetwork, { identity }: Caller): Promise<boolean> {
  if (identity === null) return false
  const stored = await network.lookUp({ type: IDENTITY, id: identity })
  return stored === null || stored.state === 'REVOKED'
}

/**
 * Checks the right to manage identities, which access rules cannot grant: without it, everyone who may
 * use the system's types could become the administrator. The gateway's administrator has it, so do
 * identities of a NetworkAdmin, and those that were issued with it. Identities of a NetworkAdmin are
 * managed by the gateway's administrator alone.
 *
 * `participant` is whom the identity in question is for, or null if there is no such identity.
 * Errors: ACCESS_DENIED. Source of the text: Composer, `createIdentity`.
 */
async function requireIssuer(
  { definition: { model } }: BusinessNetwork,
  { state, caller, participant, action }: IssuerCheck,
): Promise<void> {
  if (caller.identity === null) return
  const isAdmin = ({ type }: Target) => {
    const declared = model.type(type)
    return declared !== null && isA(declared, NETWORK_ADMIN)
  }
  const stored = await state.read({ type: IDENTITY, id: caller.identity })
  const own = stored === null ? {} : objectIn(stored.text)
  // An identity may be revoked while its request waits.
  const mayIssue = own.state !== 'REVOKED' && (own.canIssue === true || isAdmin(caller.participant))
  if (!mayIssue) {
    const message = `The identity ${String(own.name)} does not have permission to ${action}`
    throw new NetworkError('ACCESS_DENIED', message)
  }
  if (participant === null || !isAdmin(participant)) return
  throw new NetworkError('ACCESS_DENIED', `only the administrator of the gateway may ${action}`)
}

interface IssuerCheck {
  readonly state: ResourceReader
  readonly caller: Caller
  readonly participant: Target | null
  /** Completes “does not have permission to”. */
  readonly action: string
}

async function add(
  network: BusinessNetwork,
  { verb, fields, action }: { verb: string; fields: JsonObject; action: string },
  { id, canIssue, ...identity }: NewIdentity,
  participant: Target,
  caller: Caller,
): Promise<void> {
  const target = { type: IDENTITY, id }
  const decide = async (state: ResourceReader) => {
    await requireIssuer(network, { state, caller, participant, action })
    if ((await state.read(participant)) === null) {
      const { type, id: missing } = participant
      const message = `Object with ID '${missing}' in collection with ID 'Participant:${type}' does not exist`
      throw new NetworkError('RESOURCE_NOT_FOUND', message)
    }
    if ((await state.read(target)) !== null) {
      throw new NetworkError('RESOURCE_EXISTS', 'this identity is recorded already')
    }
    if (identity.state === 'ISSUED') await requireNewName(network, identity.name, state)
    const resource = {
      $class: IDENTITY,
      identityId: id,
      ...identity,
      issuer: network.definition.name,
      participant: relationshipText(participant),
      // Absent from all others, so they are recorded as they were before there was such a right.
      ...(canIssue ? { canIssue } : {}),
    }
    return { fields, writes: [{ kind: 'create', target, resource } as const] }
  }
  await network.submitSystem(verb, decide, caller)
}

/** A user ID is issued once, also after it was revoked, as in Composer. Errors: RESOURCE_EXISTS. */
async function requireNewName(
  { definition: { model } }: BusinessNetwork,
  name: string,
  state: ResourceReader,
): Promise<void> {
  const type = model.type(IDENTITY)
  if (type === null) return
  const equals = (field: string, value: string): Where => ({
    ...{ kind: 'condition', path: [field], negated: false },
    test: { kind: 'equals', values: [value] },
  })
  // Bound identities have a certificate, and the id of their participant for a name.
  const of = [equals('name', name), equals('certificate', '')]
  const all = { order: [], limit: null, offset: 0 }
  if ((await state.count({ type, where: { kind: 'all', of }, ...all })) === 0) return
  throw new NetworkError('RESOURCE_EXISTS', `the user ID '${name}' has been issued already`)
}

interface NewIdentity {
  readonly id: string
  readonly name: string
  readonly state: string
  readonly certificate: string
  readonly canIssue: boolean
}

function participantOf(network: BusinessNetwork, text: string, path: string): Target {
  const { model } = network.definition
  const declared = model.type(systemType('Participant'))
  const target = declared === null ? 'no model' : targetOf(text, declared, model)
  const problem = (message: string): Problem => ({ path, code: 'WRONG_RELATIONSHIP', message })
  if (typeof target === 'string') throw invalid([problem(target)])
  const type = model.type(target.type)
  if (type === null || type.abstract || !isA(type, systemType('Participant'))) {
    throw invalid([problem(`name a participant: resource:<type>#<id>, not ${text.slice(0, 100)}`)])
  }
  return target
}
