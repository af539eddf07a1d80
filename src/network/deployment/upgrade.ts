import { canonicalJson } from '../../base/canonical-json.ts'
import { isJsonObject, type Json, type JsonObject, parseJson } from '../../base/json.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import type { Target, TypeDeclaration } from '../model/model.ts'
import { SYSTEM_NAMESPACE } from '../model/system.ts'
import { checkInstance, PROBLEMS_MAX, type Problem, pointer } from '../model/validation.ts'
import {
  parseItemId,
  parseStored,
  type ResourceChange,
  type ResourceDatabase,
  toWrite,
} from '../resources/database.ts'
import { changedMember, RESOURCES_MAX } from '../resources/instances.ts'

/** Maximum characters of all updates of an upgrade, which must fit into one block. */
const CHARACTERS_MAX = 64 * 1024 * 1024

/** A value for a new field of stored resources. */
export interface FieldDefault {
  /**
   * Qualified or short name of the type that has the field, also of a concept. The default also applies to subtypes.
   */
  readonly type: string
  readonly field: string
  readonly value: Json
}

/** Parses `Type.field=value`, or returns null if `text` is malformed. A value that is not JSON becomes a string. */
export function parseFieldDefault(text: string): FieldDefault | null {
  const [, type, field, written] = /^([\w.$]+)\.([\w$]+)=(.*)$/s.exec(text) ?? []
  if (type === undefined || field === undefined || written === undefined) return null
  try {
    return { type, field, value: parseJson(written) }
  } catch {
    return { type, field, value: written }
  }
}

/**
 * Validates every resource of `database` against the model of `next`, which replaces `current`. Returns the updates that
 * fill new fields, also of nested objects, from `defaults` and from the model's defaults. All other members must stay as
 * they are: an upgrade only adds members.
 * Errors: UPGRADE_INVALID with the problems found, up to PROBLEMS_MAX; UNIT_TOO_LARGE.
 */
export async function planUpgrade(
  database: ResourceDatabase,
  current: NetworkDefinition,
  next: NetworkDefinition,
  defaults: readonly FieldDefault[],
): Promise<ResourceChange[]> {
  const changes: ResourceChange[] = []
  const problems: Problem[] = []
  let characters = 0
  for await (const page of database.items()) {
    for (const { id, text } of page) {
      const target = parseItemId(id)
      if (target === null || target.type.startsWith(`${SYSTEM_NAMESPACE}.`)) continue
      const { resource } = parseStored(text)
      const stored = isJsonObject(resource) ? resource : {}
      const upgraded = upgradeResource(stored, target, current, next, defaults)
      if (Array.isArray(upgraded)) {
        problems.push(
          ...upgraded.map((each) => ({ ...each, path: `${pointer('', id)}${each.path}` })),
        )
      } else if (canonicalJson(upgraded) !== canonicalJson(stored)) {
        changes.push(toWrite('update', target, upgraded))
        characters += text.length
      }
      if (changes.length > RESOURCES_MAX || characters > CHARACTERS_MAX) throw tooLarge()
      if (problems.length >= PROBLEMS_MAX) throw refused(problems)
    }
  }
  if (problems.length > 0) throw refused(problems)
  return changes
}

/** Returns `stored` with its new fields, or the reasons why it does not fit the model of `next`. */
function upgradeResource(
  stored: JsonObject,
  target: Target,
  current: NetworkDefinition,
  next: NetworkDefinition,
  defaults: readonly FieldDefault[],
): JsonObject | Problem[] {
  const type = next.model.type(target.type)
  const kind = current.model.type(target.type)?.kind
  if (type === null || type.abstract || type.kind !== kind) {
    const message = `${target.type} is not a concrete ${kind} type in the new model`
    return [{ path: '', code: 'WRONG_CLASS', message }]
  }
  const { resource, problems } = checkInstance(
    next.model,
    type,
    withDefaults(stored, next, defaults),
    next,
  )
  if (problems !== null) return [...problems]
  const identifier = type.identifier ?? ''
  if (resource[identifier] !== target.id) {
    const message = `the resource has the id '${target.id}', but the new identifier ${identifier} has another value`
    return [{ path: pointer('', identifier), code: 'WRONG_TYPE', message }]
  }
  const path = changedMember(stored, resource, '')
  if (path === null) return resource
  const message = 'the stored value has another form or meaning in the new model'
  return [{ path, code: 'WRONG_TYPE', message }]
}

/** Returns a copy of `value` with the `defaults` of its type and of the types of its nested objects. */
function withDefaults(
  value: JsonObject,
  next: NetworkDefinition,
  defaults: readonly FieldDefault[],
): JsonObject {
  const nested = (member: Json): Json => {
    if (Array.isArray(member)) return member.map(nested)
    return isJsonObject(member) ? withDefaults(member, next, defaults) : member
  }
  const filled: JsonObject = {}
  for (const [name, member] of Object.entries(value)) filled[name] = nested(member)
  const type = next.model.type(String(value.$class))
  for (const { type: name, field, value: preset } of defaults) {
    const isMissing = type !== null && hasName(type, name) && !Object.hasOwn(filled, field)
    if (isMissing) filled[field] = preset
  }
  return filled
}

/** Whether `name` is the qualified or short name of `type` or of one of its supertypes. */
function hasName(type: TypeDeclaration, name: string): boolean {
  for (let at: TypeDeclaration | null = type; at !== null; at = at.superType) {
    if (at.name === name || at.qualifiedName === name) return true
  }
  return false
}

function tooLarge(): NetworkError {
  const message = `the upgrade would change more than ${RESOURCES_MAX} resources, or more than ${CHARACTERS_MAX} characters, in one block; make new fields optional`
  return new NetworkError('UNIT_TOO_LARGE', message)
}

function refused(problems: readonly Problem[]): NetworkError {
  const [first] = problems
  const message = `stored resources do not fit the new model: ${first?.path}: ${first?.message}`
  return new NetworkError('UPGRADE_INVALID', message, { problems })
}
