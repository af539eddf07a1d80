import { JSON_DEPTH_MAX } from '../base/strict-json.ts'
import { ClientError } from './error.ts'

/** Treatment of members that are undefined: left out, as by `JSON.stringify`, or refused. */
export type UndefinedMembers = 'omitted' | 'refused'

/**
 * Returns `value` as JSON. Refuses values that `JSON.stringify` would change or drop without an error. Errors:
 * ClientError, VALUE_INVALID. The message contains the path of the member, which starts with `root`.
 */
export function jsonText(value: unknown, root: string, members: UndefinedMembers = 'omitted') {
  const fault = findFault(value, members, [])
  if (fault !== null) throw valueInvalid(`${root}${fault.path} ${fault.reason}`)
  return JSON.stringify(value)
}

/** Returns the error for an argument that cannot be sent. */
export function valueInvalid(fault: string): ClientError {
  return new ClientError('VALUE_INVALID', 0, fault)
}

// Programs without types, or with an index off by one, pass values that the types exclude. A request without such a
// value would have another meaning: without an id, it concerns the whole database.

/** Returns `value`, which must be one object. Errors: ClientError, VALUE_INVALID. */
export function requireObject<Value>(value: Value, root: string): Value {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw valueInvalid(`${root} is ${describeValue(value)} instead of an object`)
}

/** Returns `value`, which must be a list. Errors: ClientError, VALUE_INVALID. */
export function requireArray<Value>(value: readonly Value[], root: string): readonly Value[] {
  if (Array.isArray(value)) return value
  throw valueInvalid(`${root} is ${describeValue(value)} instead of a list`)
}

/** Returns `value`, which must be a text that is not empty. Errors: ClientError, VALUE_INVALID. */
export function requireText(value: string | undefined, root: string): string {
  if (typeof value === 'string' && value !== '') return value
  throw valueInvalid(`${root} is ${describeValue(value)} instead of a text`)
}

/** Returns `value`, which must be an integer of `min` or more. Errors: ClientError, VALUE_INVALID. */
export function requireCount(value: number, root: string, min = 0): number {
  if (Number.isSafeInteger(value) && value >= min) return value
  throw valueInvalid(`${root} is ${describeValue(value)} instead of an integer of ${min} or more`)
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/i

/** Requires the height of a block, or a time of RFC 3339, which the node parses. Errors: VALUE_INVALID. */
export function requireHeightOrTime(
  value: number | string | undefined,
  root: string,
): number | string | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'number') return requireCount(value, root)
  if (TIME.test(value)) return value
  throw valueInvalid(`${root} is ${describeValue(value)} instead of a height or a time of RFC 3339`)
}

interface Fault {
  /** `/a/0` for the first element of the member `a`. */
  readonly path: string
  readonly reason: string
}

/** Finds the first part of `value` that JSON cannot represent. `parents` are the objects that contain `value`. */
function findFault(value: unknown, members: UndefinedMembers, parents: unknown[]): Fault | null {
  if (typeof value === 'string' || typeof value === 'boolean' || value === null) return null
  if (typeof value === 'number') {
    return Number.isFinite(value) ? null : { path: '', reason: `is ${value}${REASON}` }
  }
  if (typeof value !== 'object' || isOpaque(value)) {
    return { path: '', reason: `is ${describeValue(value)}${REASON}` }
  }
  if (parents.includes(value)) return { path: '', reason: `contains itself${REASON}` }
  if (parents.length === JSON_DEPTH_MAX) {
    return { path: '', reason: `is nested deeper than ${JSON_DEPTH_MAX}` }
  }
  parents.push(value)
  const fault = findMemberFault(value, members, parents)
  parents.pop()
  return fault
}

function findMemberFault(
  value: object,
  members: UndefinedMembers,
  parents: unknown[],
): Fault | null {
  if ('toJSON' in value && typeof value.toJSON === 'function') {
    return findFault(value.toJSON(), members, parents)
  }
  const list: readonly unknown[] | null = Array.isArray(value) ? value : null
  // `keys()` of a list includes its holes, unlike `Object.keys`.
  for (const name of list?.keys() ?? Object.keys(value)) {
    const member: unknown = Reflect.get(value, name)
    if (member === undefined && list === null && members === 'omitted') continue
    const fault = findFault(member, members, parents)
    if (fault !== null) return { path: `/${name}${fault.path}`, reason: fault.reason }
  }
  return null
}

const REASON = ', which JSON cannot hold'

/** Whether `JSON.stringify` would write the object without its content, as `{}` for a Promise or a Map. */
function isOpaque(value: object): boolean {
  if (value instanceof Date) return Number.isNaN(value.getTime())
  if (ArrayBuffer.isView(value)) return true
  if (Array.isArray(value) || 'toJSON' in value || Object.keys(value).length > 0) return false
  return Object.prototype.toString.call(value) !== '[object Object]'
}

/** Describes a value for an error message. */
export function describeValue(value: unknown): string {
  if (value === '') return 'an empty text'
  if (value === null || value === undefined || typeof value === 'number') return String(value)
  if (value instanceof Date && Number.isNaN(value.getTime())) return 'an invalid Date'
  if (Array.isArray(value)) return 'a list'
  return `a ${typeof value === 'object' ? (value.constructor?.name ?? 'object') : typeof value}`
}
