import type { JsonObject } from '../../base/json.ts'
import type { Where } from '../../filter/index.ts'
import { NetworkError } from '../errors.ts'
import {
  formatRelationship,
  isA,
  type Model,
  parseRelationship,
  parseTarget,
  type Target,
} from '../model/model.ts'
import { systemType } from '../model/system.ts'
import type { ProblemCode } from '../model/validation.ts'
import { parseStored, selectAll } from '../resources/database.ts'
import type { Guard } from '../resources/guard.ts'
import {
  type Resource,
  requireType,
  resourceInvalid,
  resourceMissing,
} from '../resources/instances.ts'
import { createTransaction, type Stamp } from '../resources/transaction.ts'
import { accountId, isAccount } from './account.ts'
import { Draft } from './draft.ts'
import type { IdentityChange, IdentityRequest } from './messages.ts'

const IDENTITY = systemType('Identity')
const NETWORK_ADMIN = systemType('NetworkAdmin')
const PARTICIPANT = systemType('Participant')
const ISSUE = systemType('IssueIdentity')
const BIND = systemType('BindIdentity')
const REVOKE = systemType('RevokeIdentity')
/** The fingerprint of a secret that a client generated itself and does not send. */
const FINGERPRINT = /^sha256:([0-9a-f]{64})$/
const NAME_LENGTH_MAX = 128

/**
 * Drafts the transaction for `change`. `guard` checks the rights of the participant who makes the request.
 * Errors: RESOURCE_INVALID, RESOURCE_NOT_FOUND, RESOURCE_EXISTS, ACCESS_DENIED.
 */
export async function draftIdentityChange(
  change: IdentityChange,
  guard: Guard,
  stamp: Stamp,
): Promise<Draft> {
  switch (change.kind) {
    case 'issueIdentity':
      return draftIssue(change.id, change.identity, guard, stamp)
    case 'bindIdentity':
      return draftBinding(change.participant, change.certificate, guard, stamp)
    case 'revokeIdentity':
      return draftRevocation(change.id, guard, stamp)
  }
}

async function draftIssue(
  id: string,
  { participant: relationship, name, canIssue }: IdentityRequest,
  guard: Guard,
  stamp: Stamp,
): Promise<Draft> {
  const participant = requireParticipant(guard.definition.model, relationship)
  if (name === '' || name.length > NAME_LENGTH_MAX) {
    const message = `the name of an identity must have 1 to ${NAME_LENGTH_MAX} characters`
    throw invalidField('userID', 'MISSING', message)
  }
  const withoutRight = { name, state: 'ISSUED', certificate: '' }
  // Omits `canIssue` if it is false, as in identities that were recorded before this member existed.
  const content = canIssue ? { ...withoutRight, canIssue } : withoutRight
  const action = `create a new identity ${name}`
  const identity = await newIdentity(id, participant, content, action, guard)
  const fields = { participant: formatRelationship(participant), identityName: name }
  const draft = await Draft.begin(guard, createTransaction(ISSUE, stamp, fields))
  await draft.add(identity)
  return draft
}

async function draftBinding(
  relationship: string,
  certificate: string,
  guard: Guard,
  stamp: Stamp,
): Promise<Draft> {
  const participant = requireParticipant(guard.definition.model, relationship)
  const [, fingerprint] = FINGERPRINT.exec(certificate) ?? []
  const id = fingerprint ?? (isAccount(certificate) ? accountId(certificate) : undefined)
  if (id === undefined) {
    const message =
      'a certificate must be sha256:<64 hexadecimal digits>, the hash of the bearer’s secret, ' +
      'or oidc:<issuer> <subject>'
    throw invalidField('certificate', 'PATTERN_MISMATCH', message)
  }
  const content = { name: participant.id, state: 'BOUND', certificate }
  const action = `bind an identity of ${participant.type}#${participant.id}`
  const identity = await newIdentity(id, participant, content, action, guard)
  const fields = { participant: formatRelationship(participant), certificate }
  const draft = await Draft.begin(guard, createTransaction(BIND, stamp, fields))
  await draft.add(identity)
  return draft
}

/** Revokes an identity permanently. */
async function draftRevocation(id: string, guard: Guard, stamp: Stamp): Promise<Draft> {
  const target = { type: IDENTITY, id }
  const stored = await guard.database.read(target)
  const identity = stored === null ? null : parseStored(stored.text)
  const participant = parseTarget(String(identity?.participant))
  await requireIssuer(guard, participant, `revoke the identity ${id}`)
  if (identity === null) {
    throw new NetworkError('RESOURCE_NOT_FOUND', `Object with ID '${id}' does not exist`)
  }
  const fields = { identity: formatRelationship(target) }
  const draft = await Draft.begin(guard, createTransaction(REVOKE, stamp, fields))
  await draft.update({ target, value: { ...identity, state: 'REVOKED' } }, null)
  return draft
}

/**
 * Checks that the caller has the right to manage identities. The gateway's administrator, identities of a
 * NetworkAdmin, and identities issued with `canIssue` have this right. Access rules cannot grant it, because otherwise
 * everyone who may use the system types could become the administrator. Only the gateway's administrator can manage
 * identities of a NetworkAdmin.
 *
 * `participant` is the owner of the identity, or null if the identity does not exist. `action` is the end of the
 * error message “… does not have permission to …”. Errors: ACCESS_DENIED. Source of the message: Composer,
 * `createIdentity`.
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
  const own = stored === null ? {} : parseStored(stored.text)
  // The identity may have been revoked while the request was queued.
  const mayIssue = own.state !== 'REVOKED' && (own.canIssue === true || isAdmin(caller.participant))
  if (!mayIssue) {
    const message = `The identity ${String(own.name)} does not have permission to ${action}`
    throw new NetworkError('ACCESS_DENIED', message)
  }
  if (participant === null || !isAdmin(participant)) return
  throw new NetworkError('ACCESS_DENIED', `only the administrator of the gateway may ${action}`)
}

/** Returns a new identity with `content`. For `action`, see `requireIssuer`. */
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
  if (!(await database.exists(participant))) {
    throw resourceMissing(requireType(definition.model, participant.type), participant.id)
  }
  if (await database.exists(target)) {
    throw new NetworkError('RESOURCE_EXISTS', 'this identity is recorded already')
  }
  if (content.state === 'ISSUED') await requireNewName(content.name, guard)
  const value = {
    $class: IDENTITY,
    identityId: id,
    ...content,
    issuer: definition.name,
    participant: formatRelationship(participant),
  }
  return { target, value }
}

/**
 * Requires a user ID that was never issued before, even to a revoked identity, as in Composer. Errors:
 * RESOURCE_EXISTS.
 */
async function requireNewName(name: string, { definition, database }: Guard): Promise<void> {
  const type = requireType(definition.model, IDENTITY)
  const equals = (field: string, value: string): Where => ({
    ...{ kind: 'condition', path: [field], negated: false },
    test: { kind: 'equals', values: [value] },
  })
  // Excludes bound identities, which have a certificate and use their participant's id as name.
  const of = [equals('name', name), equals('certificate', '')]
  if ((await database.count({ ...selectAll(type), where: { kind: 'all', of } })) === 0) return
  throw new NetworkError('RESOURCE_EXISTS', `the user ID '${name}' has been issued already`)
}

function requireParticipant(model: Model, text: string): Target {
  const target = parseRelationship(text, requireType(model, PARTICIPANT), model)
  if (typeof target === 'string') throw invalidField('participant', 'WRONG_RELATIONSHIP', target)
  const type = requireType(model, target.type)
  if (!type.abstract && isA(type, PARTICIPANT)) return target
  const message = `the participant must have the form resource:<type>#<id>, not ${text.slice(0, 100)}`
  throw invalidField('participant', 'WRONG_RELATIONSHIP', message)
}

function invalidField(name: string, code: ProblemCode, message: string): NetworkError {
  return resourceInvalid([{ path: `/${name}`, code, message }])
}
