import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { NetworkError } from '../errors.ts'
import type { Model, TypeDeclaration } from '../model/model.ts'
import { checkInstance } from '../model/validation.ts'
import { type InstanceRules, type Resource, resourceInvalid } from '../resources/instances.ts'
import { requireString } from './guest-message.ts'

/** Maximum events per transaction. */
const EVENTS_MAX = 1_000

/**
 * Returns the events that the processors of `transaction` emitted, in their stored form. Assigns the time and the id,
 * `<transaction id>#<n>`, of each event. Errors: RESOURCE_INVALID, TRANSACTION_FAILED.
 */
export function checkedEvents(
  emitted: Json,
  transaction: Resource,
  rules: InstanceRules,
): JsonObject[] {
  const events = Array.isArray(emitted) ? emitted : []
  if (events.length > EVENTS_MAX) {
    const message = `a transaction may emit at most ${EVENTS_MAX} events`
    throw new NetworkError('TRANSACTION_FAILED', message)
  }
  return events.map((event, at) => checkedEvent(event, at, transaction, rules))
}

function checkedEvent(
  event: Json,
  at: number,
  { target, value: { timestamp = null } }: Resource,
  rules: InstanceRules,
): JsonObject {
  const name = isJsonObject(event) ? requireString(event.$class) : ''
  const type = rules.model.type(name)
  if (!isJsonObject(event) || type?.kind !== 'event') {
    throw new NetworkError('TRANSACTION_FAILED', `there is no event ${name.slice(0, 100)}`)
  }
  const complete = { ...event, eventId: `${target.id}#${at}`, timestamp }
  const { resource, problems } = checkInstance(rules.model, type, complete, rules)
  if (problems === null) return resource
  throw new NetworkError('TRANSACTION_FAILED', resourceInvalid(problems).message, { problems })
}

/** The argument of `@returns` on a transaction. */
export interface Returned {
  /** The name as written: a built-in type, or the name of a declared type. */
  readonly name: string
  readonly array: boolean
  /** The declared type with this short or qualified name; null for a built-in type. */
  readonly type: TypeDeclaration | null
}

/** Returns the declared result of a transaction, or null if the client receives the transaction itself. */
export function declaredReturn(transaction: TypeDeclaration, model: Model): Returned | null {
  const { decorators } = transaction
  const [written] = decorators.find((decorator) => decorator.name === 'returns')?.arguments ?? []
  if (typeof written !== 'string') return null
  const name = written.replace(/\[\]$/, '')
  return { name, array: written.endsWith('[]'), type: typeNamed(name, transaction, model) }
}

/** Whether transactions of a type are recorded. They are not if the type has `@commit(false)`. */
export function isRecorded({ decorators }: TypeDeclaration): boolean {
  return decorators.find(({ name }) => name === 'commit')?.arguments[0] !== false
}

/** Validates and returns the result of a transaction. Errors: TRANSACTION_FAILED if it is not of the declared type. */
export function checkedReturn(
  transaction: TypeDeclaration,
  declared: Returned,
  returned: Json,
  rules: InstanceRules,
): Json {
  const { name, type, array } = declared
  const checked = (value: Json): Json => {
    if (type !== null && type.kind !== 'enum' && isJsonObject(value)) {
      const { resource, problems } = checkInstance(rules.model, type, value, rules)
      if (problems === null) return resource
      const { message } = resourceInvalid(problems)
      throw new NetworkError('TRANSACTION_FAILED', `${transaction.name} returned ${message}`)
    }
    const isValue = typeof value === 'string' && type?.values.has(value) === true
    if (type === null ? isPrimitive(value, name) : isValue) return value
    throw wrong(transaction, declared)
  }
  if (!array) return checked(returned)
  if (Array.isArray(returned)) return returned.map(checked)
  throw wrong(transaction, declared)
}

function isPrimitive(value: Json, name: string): boolean {
  if (name === 'String' || name === 'DateTime') return typeof value === 'string'
  return typeof value === (name === 'Boolean' ? 'boolean' : 'number')
}

/** Returns the declared type with this short or qualified name, or null for a built-in type. */
function typeNamed(name: string, { namespace }: TypeDeclaration, model: Model) {
  const exact = model.type(name) ?? model.type(`${namespace}.${name}`)
  return exact ?? [...model.types()].find((type) => type.name === name) ?? null
}

function wrong({ name }: TypeDeclaration, declared: Returned): NetworkError {
  const type = `${declared.name}${declared.array ? '[]' : ''}`
  return new NetworkError('TRANSACTION_FAILED', `${name} must return a value of the type ${type}`)
}
