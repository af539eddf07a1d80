import type { JsonObject } from '../../base/json.ts'
import type { Where } from '../../filter/index.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import {
  isA,
  type Model,
  relationshipText,
  type Target,
  targetOf,
  targetOfCanonical,
} from '../model/model.ts'
import { systemType } from '../model/system.ts'
import type { Problem } from '../model/validation.ts'
import type { ResourceReader } from '../resources/database.ts'
import { objectIn } from '../resources/database.ts'
import { invalid } from '../resources/instances.ts'
import type { Caller } from '../resources/transaction.ts'
import type { IdentityChange } from './messages.ts'

const IDENTITY = systemType('Identity')
const NETWORK_ADMIN = systemType('NetworkAdmin')
/** How a client names a secret that it made itself and keeps to itself. */
const FINGERPRINT = /^sha256:([0-9a-f]{64})$/
const NAME_LENGTH_MAX = 128

/** A transaction of the system that changes an identity. */
interface IdentityTransaction {
  /** The name of the transaction's type. */
  readonly verb: string
  readonly fields: JsonObject
  readonly write: {
    readonly kind: 'create' | 'update'
    readonly target: Target
    readonly resource: JsonObject
  }
}

interface Context {
  readonly caller: Caller
  readonly definition: NetworkDefinition
  readonly state: ResourceReader
}

/**
 * The transaction that makes `change`.
 * Errors: RESOURCE_INVALID, RESOURCE_NOT_FOUND, RESOURCE_EXISTS, ACCESS_DENIED.
 */
export async function identityChange(
  change: IdentityChange,
  caller: Caller,
  definition: NetworkDefinition,
  state: ResourceReader,
): Promise<IdentityTransaction> {
  const context = { caller, definition, state }
  if (change.kind === 'revokeIdentity') return revoked(change.id, context)
  if (change.kind === 'issueIdentity') {
    const { name, canIssue } = change.identity
    const participant = participantOf(definition.model, change.identity.participant)
    if (name === '' || name.length > NAME_LENGTH_MAX) {
      const message = `the name of an identity has 1 to ${NAME_LENGTH_MAX} characters`
      throw invalid([{ path: '/userID', code: 'MISSING', message }])
    }
    const fields = { participant: relationshipText(participant), identityName: name }
    const identity = { name, state: 'ISSUED', certificate: '', canIssue }
    const added = { id: change.id, participant, action: `create a new identity ${name}` }
    return { verb: 'IssueIdentity', fields, write: await addition(identity, added, context) }
  }
  const { certificate } = change
  const participant = participantOf(definition.model, change.participant)
  const [, id] = FINGERPRINT.exec(certificate) ?? []
  if (id === undefined) {
    const message =
      'a certificate is sha256:<64 hexadecimal digits>, the hash of the bearer’s secret'
    throw invalid([{ path: '/certificate', code: 'PATTERN_MISMATCH', message }])
  }
  const fields = { participant: relationshipText(participant), certificate }
  const identity = { name: participant.id, state: 'BOUND', certificate, canIssue: false }
  const action = `bind an identity of ${participant.type}#${participant.id}`
  const write = await addition(identity, { id, participant, action }, context)
  return { verb: 'BindIdentity', fields, write }
}

/** Revokes an identity for good. */
async function revoked(id: string, context: Context): Promise<IdentityTransaction> {
  const target = { type: IDENTITY, id }
  const stored = await context.state.read(target)
  const identity = stored === null ? null : objectIn(stored.text)
  const participant = targetOfCanonical(String(identity?.participant))
  await requireIssuer(context, participant, `revoke the identity ${id}`)
  if (identity === null) {
    throw new NetworkError('RESOURCE_NOT_FOUND', `Object with ID '${id}' does not exist`)
  }
  const resource = { ...identity, state: 'REVOKED' }
  const fields = { identity: relationshipText(target) }
  return { verb: 'RevokeIdentity', fields, write: { kind: 'update', target, resource } }
}

/**
 * Checks the right to manage identities, which access rules cannot grant: without it, everyone who may
 * use the system's types could become the administrator. The gateway's administrator has it, so do
 * identities of a NetworkAdmin, and those that were issued with it. Identities of a NetworkAdmin are
 * managed by the gateway's administrator alone.
 *
 * `participant` is whom the identity in question is for, or null if there is no such identity; `action`
 * completes “does not have permission to”.
 * Errors: ACCESS_DENIED. Source of the text: Composer, `createIdentity`.
 */
async function requireIssuer(
  { caller, definition: { model }, state }: Context,
  participant: Target | null,
  action: string,
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

/** The creation of an identity; `action` is for `requireIssuer`. */
async function addition(
  {
    canIssue,
    ...identity
  }: {
    readonly name: string
    readonly state: string
    readonly certificate: string
    readonly canIssue: boolean
  },
  { id, participant, action }: { id: string; participant: Target; action: string },
  context: Context,
): Promise<IdentityTransaction['write']> {
  const { definition, state } = context
  const target = { type: IDENTITY, id }
  await requireIssuer(context, participant, action)
  if ((await state.read(participant)) === null) {
    const { type, id: missing } = participant
    const message = `Object with ID '${missing}' in collection with ID 'Participant:${type}' does not exist`
    throw new NetworkError('RESOURCE_NOT_FOUND', message)
  }
  if ((await state.read(target)) !== null) {
    throw new NetworkError('RESOURCE_EXISTS', 'this identity is recorded already')
  }
  if (identity.state === 'ISSUED') await requireNewName(definition.model, identity.name, state)
  const resource = {
    $class: IDENTITY,
    identityId: id,
    ...identity,
    issuer: definition.name,
    participant: relationshipText(participant),
    // Absent from all others, so they are recorded as they were before there was such a right.
    ...(canIssue ? { canIssue } : {}),
  }
  return { kind: 'create', target, resource }
}

/** A user ID is issued once, also after it was revoked, as in Composer. Errors: RESOURCE_EXISTS. */
async function requireNewName(model: Model, name: string, state: ResourceReader): Promise<void> {
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

function participantOf(model: Model, text: string): Target {
  const declared = model.type(systemType('Participant'))
  const target = declared === null ? 'no model' : targetOf(text, declared, model)
  const problem = (message: string): Problem => ({
    ...{ path: '/participant', code: 'WRONG_RELATIONSHIP', message },
  })
  if (typeof target === 'string') throw invalid([problem(target)])
  const type = model.type(target.type)
  if (type === null || type.abstract || !isA(type, systemType('Participant'))) {
    throw invalid([problem(`name a participant: resource:<type>#<id>, not ${text.slice(0, 100)}`)])
  }
  return target
}
