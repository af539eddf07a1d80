import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import type { Model, Property } from '../model/model.ts'
import { parseTarget, type Target } from '../model/model.ts'
import { type Problem, pointer } from '../model/validation.ts'
import { parseStored, type StoredResource } from './database.ts'
import { resourceInvalid } from './instances.ts'

/** Returns the replacement for the relationship `text` at `path`. */
type Replace = (text: string, path: string) => Json

/** Returns a copy of `value` in which `replace` was applied to all relationships, also in nested objects. */
export function withRelationships(
  value: JsonObject,
  model: Model,
  replace: Replace,
  path = '',
): JsonObject {
  const { $class: name } = value
  const type = typeof name === 'string' ? model.type(name) : null
  const memberWith = (member: Json, property: Property, at: string): Json => {
    if (Array.isArray(member)) {
      return member.map((element, index) => memberWith(element, property, pointer(at, index)))
    }
    if (isJsonObject(member)) return withRelationships(member, model, replace, at)
    return property.relationship && typeof member === 'string' ? replace(member, at) : member
  }
  const members = Object.entries(value).map(([key, member]) => {
    const property = type?.properties.get(key)
    // Members that are undeclared or have a built-in type contain no relationships.
    if (property === undefined || property.type === null) return [key, member] as const
    return [key, memberWith(member, property, pointer(path, key))] as const
  })
  return Object.fromEntries(members)
}

/** Returns the relationships in `resource`. `target` is null if the text is not a canonical relationship. */
function findReferences(resource: JsonObject, model: Model, below = '') {
  const found: { path: string; text: string; target: Target | null }[] = []
  const take = (text: string, path: string) => {
    found.push({ path, text, target: parseTarget(text) })
    return text
  }
  withRelationships(resource, model, take, below)
  return found
}

/**
 * Checks that all relationships in `resources` refer to resources that exist, if the network has `strictReferences`.
 * `exists` must not tell whether a resource exists that the caller may not read.
 * Errors: RESOURCE_INVALID. If `inList` is set, the paths of the problems start with the index of the resource.
 */
export async function requireReferences(
  resources: readonly JsonObject[],
  inList: boolean,
  { strictReferences, model }: NetworkDefinition,
  exists: (target: Target) => Promise<boolean>,
): Promise<void> {
  if (!strictReferences) return
  for (const [index, resource] of resources.entries()) {
    const problems: Problem[] = []
    const below = inList ? pointer('', index) : ''
    for (const { path, text, target } of findReferences(resource, model, below)) {
      if (target !== null && model.type(target.type) !== null && (await exists(target))) continue
      const message = `the resource that this relationship refers to does not exist: ${text}`
      problems.push({ path, code: 'REFERENCE_MISSING', message })
    }
    if (problems.length > 0) throw resourceInvalid(problems)
  }
}

/** The target of a relationship. `resource` is null if it does not exist, or if the caller may not read it. */
type Resolved = Target & { readonly resource: JsonObject | null; readonly characters: number }

/**
 * Reads resources, in order and in batches. The result is null for a resource that does not exist or that the caller may
 * not read.
 */
type ReadAll = (targets: readonly Target[]) => AsyncIterable<(StoredResource | null)[]>

/** Maximum number of resolved resources per request. */
export const RESOLVED_MAX = 50_000
/** Maximum characters of the resolved resources. The resource that exceeds this size is the last one. */
export const RESOLVED_CHARACTERS_MAX = 16 * 1024 * 1024

/**
 * Resolves relationships level by level: first the relationships in given resources, then the relationships in the
 * resolved resources, and so on. Reads each resource once, and at most RESOLVED_MAX resources.
 */
export class Resolution {
  readonly #model: Model
  readonly #read: ReadAll
  readonly #seen = new Set<string>()
  #characters = 0

  constructor(model: Model, read: ReadAll) {
    this.#model = model
    this.#read = read
  }

  /** Whether relationships remain unresolved because of RESOLVED_MAX or RESOLVED_CHARACTERS_MAX. */
  get isFull(): boolean {
    return this.#seen.size >= RESOLVED_MAX || this.#characters > RESOLVED_CHARACTERS_MAX
  }

  /**
   * Returns the resources that `roots` refer to, directly or through up to `levels` relationships, except resources
   * that an earlier call returned. `named` are additional resources of the first level.
   */
  async of(
    roots: readonly JsonObject[],
    levels: number,
    named: readonly Target[] = [],
  ): Promise<Resolved[]> {
    const resolved: Resolved[] = []
    let targets = this.#unseen([...named, ...this.#findTargets(roots)])
    for (let level = 0; level < levels && targets.length > 0; level += 1) {
      const next: JsonObject[] = []
      let at = 0
      for await (const batch of this.#read(targets)) {
        for (const stored of batch.splice(0)) {
          const target = targets[at]
          at += 1
          if (target === undefined) continue
          const resource = stored === null ? null : parseStored(stored.text)
          const characters = stored?.text.length ?? 0
          resolved.push({ ...target, resource, characters })
          if (resource !== null) next.push(resource)
          this.#characters += characters
        }
        if (this.#characters > RESOLVED_CHARACTERS_MAX) return resolved
      }
      targets = level + 1 < levels ? this.#unseen(this.#findTargets(next)) : []
    }
    return resolved
  }

  #findTargets(resources: readonly JsonObject[]): Target[] {
    return resources.flatMap((resource) =>
      findReferences(resource, this.#model).flatMap(({ target }) => target ?? []),
    )
  }

  #unseen(targets: readonly Target[]): Target[] {
    return targets.filter(({ type, id }) => {
      const key = `${type}#${id}`
      if (this.#seen.has(key) || this.#model.type(type) === null) return false
      if (this.isFull) return false
      this.#seen.add(key)
      return true
    })
  }
}
