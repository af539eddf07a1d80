import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import type { Model, Property } from '../model/model.ts'
import { type Problem, pointer } from '../model/problem.ts'
import { type Target, targetOfCanonical } from '../model/relationship.ts'

/** The relationships in `resource` whose targets are not there, as problems below `path`. */
export async function missingReferences(
  resource: JsonObject,
  path: string,
  model: Model,
  isThere: (target: Target) => Promise<boolean>,
): Promise<Problem[]> {
  const problems: Problem[] = []
  const { $class: name } = resource
  const type = typeof name === 'string' ? model.type(name) : null
  for (const [key, value] of Object.entries(resource)) {
    const property = type?.properties.get(key)
    if (property !== undefined) await look(value, property, pointer(path, key))
  }
  return problems

  async function look(value: Json, property: Property, at: string): Promise<void> {
    if (Array.isArray(value)) {
      for (const [index, element] of value.entries()) {
        await look(element, property, pointer(at, index))
      }
    } else if (isJsonObject(value)) {
      problems.push(...(await missingReferences(value, at, model, isThere)))
    } else if (property.relationship && typeof value === 'string') {
      const target = targetOfCanonical(value)
      if (target !== null && (await isThere(target))) return
      const message = `nothing is at the end of this relationship: ${value}`
      problems.push({ path: at, code: 'REFERENCE_MISSING', message })
    }
  }
}
