import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { NetworkError } from '../errors.ts'
import type { Model, Target, TypeDeclaration } from '../model/model.ts'
import {
  checkInstance,
  PROBLEMS_MAX,
  type Problem,
  pointer,
  type Strictness,
} from '../model/validation.ts'
import { canBeItem } from './database.ts'

/** A resource in its stored form, with its type and id. */
export interface Resource {
  readonly target: Target
  readonly value: JsonObject
}

/** The model and options for the validation of instances. */
export interface InstanceRules extends Strictness {
  readonly model: Model
}

/** Returns the type `name`. Errors: TYPE_NOT_FOUND. */
export function requireType(model: Model, name: string): TypeDeclaration {
  const type = model.type(name)
  if (type !== null) return type
  throw new NetworkError('TYPE_NOT_FOUND', `there is no type ${name.slice(0, 100)}`)
}

/** Maximum resources per request: the 10,000 entries of a block without the transaction and its historian record. */
export const RESOURCES_MAX = 9_998

/** Throws if a list is empty or has more than RESOURCES_MAX elements. Errors: LIST_EMPTY, UNIT_TOO_LARGE. */
export function requireListLength(list: readonly unknown[]): void {
  if (list.length === 0) throw new NetworkError('LIST_EMPTY', 'the list is empty')
  if (list.length <= RESOURCES_MAX) return
  const message = `one request can change at most ${RESOURCES_MAX} resources, but this request has ${list.length}`
  throw new NetworkError('UNIT_TOO_LARGE', message)
}

/** Throws if a list contains an id twice. Errors: RESOURCE_INVALID. */
export function requireDistinct(ids: readonly string[]): void {
  const seen = new Set<string>()
  for (const [index, id] of ids.entries()) {
    if (seen.has(id)) {
      const message = `the resource '${id}' is in the list twice`
      throw resourceInvalid([{ path: pointer('', index), code: 'REPEATED', message }])
    }
    seen.add(id)
  }
}

/**
 * Validates `body`, one instance of `type` or an array of instances, and returns the resources in their stored form.
 * Errors: RESOURCE_INVALID with all problems, LIST_EMPTY, UNIT_TOO_LARGE.
 */
export function requireResources(
  body: Json,
  type: TypeDeclaration,
  rules: InstanceRules,
): Resource[] {
  if (!Array.isArray(body)) return [requireResource(body, type, rules)]
  requireListLength(body)
  const resources: Resource[] = []
  const problems: Problem[] = []
  const shared = { ...rules, matching: { ms: 0 } }
  for (const [index, value] of body.entries()) {
    const checked = checkedResource(value, type, shared, pointer('', index))
    if (Array.isArray(checked)) problems.push(...checked)
    else resources.push(checked)
    if (problems.length >= PROBLEMS_MAX) break
  }
  if (problems.length > 0) throw resourceInvalid(problems)
  return resources
}

/** Validates one instance and returns it in its stored form. Errors: RESOURCE_INVALID. */
export function requireResource(
  value: Json,
  type: TypeDeclaration,
  rules: InstanceRules,
): Resource {
  const checked = checkedResource(value, type, rules, '')
  if (Array.isArray(checked)) throw resourceInvalid(checked)
  return checked
}

export function resourceInvalid(problems: readonly Problem[]): NetworkError {
  const [first] = problems
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : ''
  const path = first === undefined || first.path === '' ? '' : `${first.path}: `
  const message = first === undefined ? '' : `${path}${first.message}${more}`
  return new NetworkError('RESOURCE_INVALID', message, { problems })
}

function checkedResource(
  value: Json,
  type: TypeDeclaration,
  rules: InstanceRules,
  path: string,
): Resource | Problem[] {
  if (!isJsonObject(value)) {
    return [{ path, code: 'WRONG_TYPE', message: `must be an object, a ${type.name}` }]
  }
  const { resource, problems } = checkInstance(rules.model, type, value, rules)
  if (problems !== null) return problems.map((each) => ({ ...each, path: `${path}${each.path}` }))
  if (resource.$class !== type.qualifiedName) {
    const message = `$class must be ${type.qualifiedName} at this path: each type has its own path`
    return [{ path: pointer(path, '$class'), code: 'WRONG_CLASS', message }]
  }
  const target = { type: type.qualifiedName, id: String(resource[type.identifier ?? '']) }
  if (canBeItem(target)) return { target, value: resource }
  const message = 'the id and the name of its type together are longer than 255 bytes'
  return [{ path: pointer(path, type.identifier ?? ''), code: 'ID_TOO_LONG', message }]
}

/** Returns `value` with the id from the path. Errors: RESOURCE_ID_MISMATCH if `value` has another id. */
export function withId(value: JsonObject, { identifier }: TypeDeclaration, id: string): JsonObject {
  const name = identifier ?? ''
  const given = (Object.hasOwn(value, name) ? value[name] : null) ?? id
  if (given === id) return { ...value, [name]: id }
  const message = `the id in the body differs from the id in the path, '${id}'`
  throw new NetworkError('RESOURCE_ID_MISMATCH', message)
}

/** Returns the fields of a transaction that a client may set: all except the id and the time. */
export function submittedFields(given: Json): JsonObject {
  if (!isJsonObject(given)) {
    throw resourceInvalid([
      { path: '', code: 'WRONG_TYPE', message: 'must be an object, a transaction' },
    ])
  }
  const { timestamp: _ignored, transactionId, ...fields } = given
  if (transactionId === undefined || transactionId === null) return fields
  const message = 'the server assigns the id of a transaction'
  throw resourceInvalid([{ path: '/transactionId', code: 'ASSIGNED_BY_SERVER', message }])
}

// The following messages equal Composer's messages, because clients compare the texts.

/** Returns the id of a type's registry for messages. */
export function formatRegistryId({ kind, qualifiedName }: TypeDeclaration): string {
  return `${kind.charAt(0).toUpperCase()}${kind.slice(1)}:${qualifiedName}`
}

/** Maximum length of an id in a message. No resource has a longer id. */
const ID_SHOWN = 256

/** Returns the error for a resource that does not exist, or that the caller may not see. */
export function resourceMissing(type: TypeDeclaration, id: string): NetworkError {
  const message = `Object with ID '${id.slice(0, ID_SHOWN)}' in collection with ID '${formatRegistryId(type)}' does not exist`
  return new NetworkError('RESOURCE_NOT_FOUND', message)
}

/** Returns the error for a resource that already exists. */
export function resourceTaken(type: TypeDeclaration, id: string): NetworkError {
  return new NetworkError(
    'RESOURCE_EXISTS',
    `Failed to add object with ID '${id}' in collection with ID '${formatRegistryId(type)}' ` +
      'as the object already exists',
  )
}

export function networkRemoved(name: string): NetworkError {
  return new NetworkError('NETWORK_REMOVED', `the network ${name} was removed`)
}

/** Returns the pointer to the first member of `before` that is not equal in `after`, or null. */
export function changedMember(before: Json, after: Json | undefined, path: string): string | null {
  const isList = Array.isArray(before) && Array.isArray(after) && before.length === after.length
  if (isList) {
    return findFirst(before.entries(), ([at, each]) =>
      changedMember(each, after[at], pointer(path, at)),
    )
  }
  if (isJsonObject(before) && isJsonObject(after)) {
    return findFirst(Object.entries(before), ([name, each]) =>
      changedMember(each, after[name], pointer(path, name)),
    )
  }
  return before === after ? null : path
}

function findFirst<Value>(values: Iterable<Value>, find: (value: Value) => string | null) {
  for (const value of values) {
    const found = find(value)
    if (found !== null) return found
  }
  return null
}
