import { isJsonObject, type Json, type JsonObject, parseJson } from '../../base/json.ts'
import { storedJson } from '../../ledger/core.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import type { TypeDeclaration } from '../model/model.ts'
import { SYSTEM_NAMESPACE } from '../model/system.ts'
import { checkInstance, PROBLEMS_MAX, type Problem, pointer } from '../model/validation.ts'
import type { ResourceChange, ResourceDatabase } from '../resources/database.ts'
import { targetOfItem } from '../resources/database.ts'

/** A value for a new field of stored resources. */
export interface FieldDefault {
  /** Qualified or short name of the type that has the field. The default also applies to subtypes. */
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
 * Validates every resource of `database` against the model of `next`. Returns the updates that fill new fields from
 * `defaults` and from the model's defaults.
 * Errors: UPGRADE_INVALID with the problems found, up to PROBLEMS_MAX.
 */
export async function upgradedResources(
  database: ResourceDatabase,
  next: NetworkDefinition,
  defaults: readonly FieldDefault[],
): Promise<ResourceChange[]> {
  const changes: ResourceChange[] = []
  const problems: Problem[] = []
  for await (const page of database.items()) {
    for (const { id, text } of page) {
      const target = targetOfItem(id)
      if (target === null || target.type.startsWith(`${SYSTEM_NAMESPACE}.`)) continue
      const stored = resourceIn(text)
      const type = next.model.type(target.type)
      if (type === null || type.abstract) {
        const message = `${target.type} is not a type of resources in the new model`
        problems.push({ path: pointer('', id), code: 'WRONG_CLASS', message })
      } else {
        const filled = { ...stored }
        for (const { type: name, field, value } of defaults) {
          if (hasName(type, name) && filled[field] === undefined) filled[field] = value
        }
        const checked = checkInstance(next.model, type, filled, next)
        if (checked.problems === null) {
          const isSame = Object.keys(checked.resource).length === Object.keys(stored).length
          if (!isSame) changes.push({ kind: 'update', target, resource: checked.resource })
        } else {
          for (const each of checked.problems) {
            problems.push({ ...each, path: `${pointer('', id)}${each.path}` })
          }
        }
      }
      if (problems.length >= PROBLEMS_MAX) throw refused(problems)
    }
  }
  if (problems.length > 0) throw refused(problems)
  return changes
}

/** Whether `name` is the qualified or short name of `type` or of one of its supertypes. */
function hasName(type: TypeDeclaration, name: string): boolean {
  for (let at: TypeDeclaration | null = type; at !== null; at = at.superType) {
    if (at.name === name || at.qualifiedName === name) return true
  }
  return false
}

function refused(problems: readonly Problem[]): NetworkError {
  const [first] = problems
  const message = `stored resources do not fit the new model: ${first?.path}: ${first?.message}`
  return new NetworkError('UPGRADE_INVALID', message, { problems })
}

function resourceIn(itemText: string): JsonObject {
  const item: Json = storedJson(itemText)
  return isJsonObject(item) && isJsonObject(item.resource) ? item.resource : {}
}
