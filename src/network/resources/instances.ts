import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { NetworkError } from '../errors.ts'
import type { Model, TypeDeclaration } from '../model/model.ts'
import { PROBLEMS_MAX, type Problem, pointer } from '../model/problem.ts'
import type { Target } from '../model/relationship.ts'
import { checkInstance, type Strictness } from '../model/validation.ts'
import { canBeItem } from './item.ts'

/** A resource in the form in which it is kept, with its name. */
export interface Resource {
  readonly target: Target
  readonly value: JsonObject
}

/** What instances are judged by. */
export interface Judge {
  readonly model: Model
  readonly strictness: Strictness
}

/** Resources of one request: the entries of a block, less the transaction and its historian's record. */
export const RESOURCES_MAX = 9_998

/** Errors: LIST_EMPTY, UNIT_TOO_LARGE. */
export function refuseLength(list: readonly unknown[]): void {
  if (list.length === 0) throw new NetworkError('LIST_EMPTY', 'the list is empty')
  if (list.length <= RESOURCES_MAX) return
  const message = `one request may change ${RESOURCES_MAX} resources, not ${list.length}`
  throw new NetworkError('UNIT_TOO_LARGE', message)
}

/** Errors: RESOURCE_INVALID when a list names a resource twice. */
export function refuseRepeated(ids: readonly string[]): void {
  const seen = new Set<string>()
  for (const [index, id] of ids.entries()) {
    if (seen.has(id)) {
      const message = `the resource '${id}' is in the list twice`
      throw invalid([{ path: pointer('', index), code: 'REPEATED', message }])
    }
    seen.add(id)
  }
}

/**
 * `body`, one instance of `type` or an array of them, in the form in which they are kept.
 * Errors: RESOURCE_INVALID with all problems, LIST_EMPTY, UNIT_TOO_LARGE.
 */
export function resourcesOf(body: Json, type: TypeDeclaration, judge: Judge): Resource[] {
  if (!Array.isArray(body)) return [resourceOf(body, type, judge)]
  refuseLength(body)
  const resources: Resource[] = []
  const problems: Problem[] = []
  for (const [index, value] of body.entries()) {
    const judged = judgedResource(value, type, judge, pointer('', index))
    if (Array.isArray(judged)) problems.push(...judged)
    else resources.push(judged)
    if (problems.length >= PROBLEMS_MAX) break
  }
  if (problems.length > 0) throw invalid(problems)
  return resources
}

/** One instance. Errors: RESOURCE_INVALID. */
export function resourceOf(value: Json, type: TypeDeclaration, judge: Judge): Resource {
  const judged = judgedResource(value, type, judge, '')
  if (Array.isArray(judged)) throw invalid(judged)
  return judged
}

/** A refusal for `problems`. */
export function invalid(problems: readonly Problem[]): NetworkError {
  const [first] = problems
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : ''
  const path = first === undefined || first.path === '' ? '' : `${first.path}: `
  const message = first === undefined ? '' : `${path}${first.message}${more}`
  return new NetworkError('RESOURCE_INVALID', message, { problems })
}

function judgedResource(
  value: Json,
  type: TypeDeclaration,
  { model, strictness }: Judge,
  path: string,
): Resource | Problem[] {
  if (!isJsonObject(value)) {
    return [{ path, code: 'WRONG_TYPE', message: `must be an object, a ${type.name}` }]
  }
  const { resource, problems } = checkInstance(model, type, value, strictness)
  if (problems !== null) return problems.map((each) => ({ ...each, path: `${path}${each.path}` }))
  if (resource.$class !== type.qualifiedName) {
    const message = `here $class is ${type.qualifiedName}: each type has a path of its own`
    return [{ path: pointer(path, '$class'), code: 'WRONG_CLASS', message }]
  }
  const target = { type: type.qualifiedName, id: String(resource[type.identifier ?? '']) }
  if (canBeItem(target)) return { target, value: resource }
  const message = 'with the name of its type the id has more than 255 bytes'
  return [{ path: pointer(path, type.identifier ?? ''), code: 'ID_TOO_LONG', message }]
}
