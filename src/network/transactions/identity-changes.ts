import type { JsonObject } from '../../base/json.ts'
import type { Where } from '../../filter/index.ts'
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
import type { ProblemCode } from '../model/validation.ts'
import { allOf, objectIn } from '../resources/database.ts'
import type { Guard } from '../resources/guard.ts'
import { invalid, missing, type Resource, requireType } from '../resources/instances.ts'
import { type Stamp, transactionOf } from '../resources/transaction.ts'
import { Draft } from './draft.ts'
import type { IdentityChange, IdentityRequest } from './messages.ts'

const IDENTITY = systemType('Identity')
const NETWORK_ADMIN = systemType('NetworkAdmin')
const PARTICIPANT = systemType('Participant')
const ISSUE = systemType('IssueIdentity')
const BIND = systemType('BindIdentity')
const REVOKE = systemType('RevokeIdentity')
/** How a client names a secret that it made itself and keeps to itself. */
const FINGERPRINT = /^sha256:([0-9a-f]{64})$/
const NAME_LENGTH_MAX = 128

/**
 * Drafts the transaction that makes `change`, for the caller of `guard`.
 * Errors: RESOURCE_INVALID, RESOURCE_NOT_FOUND, RESOURCE_EXISTS, ACCESS_DENIED.
 */
export async function identityDraft(
  change: IdentityChange,
  guard: Guard,
  stamp: Stamp,
): Promise<Draft> {
  switch (change.kind) {
    case 'issueIdentity':
      return issued(change.id, change.identity, guard, stamp)
    case 'bindIdentity':
      return bound(change.participant, change.certificate, guard, stamp)
    case 'revokeIdentity':
      return revoked(change.id, guard, stamp)
  }
}

async function issued(
  id: string,
  { participant: relationship, name, canIssue }: IdentityRequest,
  guard: Guard,
  stamp: Stamp,
): Promise<Draft> {
  const participant = participantOf(guard.definition.model, relationship)
  if (name === '' || name.length > NAME_LENGTH_MAX) {
    const message = `the name of an identity has 1 to ${NAME_LENGTH_MAX} characters`
    throw invalidField('userID', 'MISSING', message)
  }
  const withoutRight = { name, state: 'ISSUED', certificate: '' }
  // Absent from all others, so they are recorded as they were before there was such a right.
  const content = canIssue ? { ...withoutRight, canIssue } : withoutRight
  const action = `create a new identity ${name}`
  const identity = await newIdentity(id, participant, content, action, guard)
  const fields = { participant: relationshipText(participant), identityName: name }
  const draft = await Draft.begin(guard, transactionOf(ISSUE, stamp, fields))
  await draft.add(identity)
  return draft
}

async function bound(
  relationship: string,
  certificate: string,
  guard: Guard,
  stamp: Stamp,
): Promise<Draft> {
  const participant = participantOf(guard.definition.model, relationship)
  const [, id] = FINGERPRINT.exec(certificate) ?? []
  if (id === undefined) {
    const message =
      'a certificate is sha256:<64 hexadecimal digits>, the hash of the bearer’s secret'
    throw invalidField('certificate', 'PATTERN_MISMATCH', message)
  }
  const content = { name: participant.id, state: 'BOUND', certificate }
  const action = `bind an identity of ${participant.type}#${participant.id}`
  const identity = await newIdentity(id, participant, content, action, guard)
  const fields = { participant: relationshipText(participant), certificate }
  const draft = await Draft.begin(guard, transactionOf(BIND, stamp, fields))
  await draft.add(identity)
  return draft
}

/** Revokes an identity for good. */
async function revoked(id: string, guard: Guard, stamp: Stamp): Promise<Draft> {
  const target = { type: IDENTITY, id }
  const stored = await guard.database.read(target)
  const identity = stored === null ? null : objectIn(stored.text)
  const participant = targetOfCanonical(String(identity?.participant))
  await requireIssuer(guard, participant, `revoke the identity ${id}`)
  if (identity === null) {
    throw new NetworkError('RESOURCE_NOT_FOUND', `Object with ID '${id}' does not exist`)
  }
  const fields = { identity: relationshipText(target) }
  const draft = await Draft.begin(guard, transactionOf(REVOKE, stamp, fields))
  await draft.update({ target, value: { ...identity, state: 'REVOKED' } }, null)
  return draft
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
  { caller, definition: { model }, database }: Guard,
  participant: Target | null,
  action: string,
): Promise<void> {
  if (caller.identity === null) return
  const isAdmin = ({ type }: Target) => {
    const declared = model.type(type)
    return declared !== null && isA(declared, NETWORK_ADMIN)
  }
  const stored = await database.read({ type: IDENTITY, id: caller.identity })
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

/** A new identity with `content`; `action` is for `requireIssuer`. */
async function newIdentity(
  id: string,
  participant: Target,
  content: JsonObject & { readonly name: string },
  action: string,
  guard: Guard,
): Promise<Resource> {
  const { definition, database } = guard
  const target = { type: IDENTITY, id }
  await requireIssuer(guard, participant, action)
  if ((await database.read(participant)) === null) {
    throw missing(requireType(definition.model, participant.type), participant.id)
  }
  if ((await database.read(target)) !== null) {
    throw new NetworkError('RESOURCE_EXISTS', 'this identity is recorded already')
  }
  if (content.state === 'ISSUED') await requireNewName(content.name, guard)
  const value = {
    $class: IDENTITY,
    identityId: id,
    ...content,
    issuer: definition.name,
    participant: relationshipText(participant),
  }
  return { target, value }
}

/** A user ID is issued once, also after it was revoked, as in Composer. Errors: RESOURCE_EXISTS. */
async function requireNewName(name: string, { definition, database }: Guard): Promise<void> {
  const type = requireType(definition.model, IDENTITY)
  const equals = (field: string, value: string): Where => ({
    ...{ kind: 'condition', path: [field], negated: false },
    test: { kind: 'equals', values: [value] },
  })
  // Bound identities have a certificate, and the id of their participant for a name.
  const of = [equals('name', name), equals('certificate', '')]
  if ((await database.count({ ...allOf(type), where: { kind: 'all', of } })) === 0) return
  throw new NetworkError('RESOURCE_EXISTS', `the user ID '${name}' has been issued already`)
}

function participantOf(model: Model, text: string): Target {
  const target = targetOf(text, requireType(model, PARTICIPANT), model)
  if (typeof target === 'string') throw invalidField('participant', 'WRONG_RELATIONSHIP', target)
  const type = requireType(model, target.type)
  if (!type.abstract && isA(type, PARTICIPANT)) return target
  const message = `name a participant: resource:<type>#<id>, not ${text.slice(0, 100)}`
  throw invalidField('participant', 'WRONG_RELATIONSHIP', message)
}

function invalidField(name: string, code: ProblemCode, message: string): NetworkError {
  return invalid([{ path: `/${name}`, code, message }])
}
