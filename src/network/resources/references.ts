import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import type { Model, Property } from '../model/model.ts'
import { type Target, targetOfCanonical } from '../model/model.ts'
import { type Problem, pointer } from '../model/validation.ts'
import { objectIn } from './database.ts'

/** A relationship in a resource. */
interface Reference {
  readonly path: string
  readonly text: string
  /** Null for a text that names no resource. */
  readonly target: Target | null
}

/** All relationships in `resource`, also those in its concepts; their paths are below `path`. */
function* referencesIn(resource: JsonObject, model: Model, path = ''): Generator<Reference> {
  const { $class: name } = resource
  const type = typeof name === 'string' ? model.type(name) : null
  for (const [key, value] of Object.entries(resource)) {
    const property = type?.properties.get(key)
    // Primitives lead nowhere.
    if (property !== undefined && property.type !== null) {
      yield* referencesInValue(value, property, model, pointer(path, key))
    }
  }
}

function* referencesInValue(
  value: Json,
  property: Property,
  model: Model,
  path: string,
): Generator<Reference> {
  if (Array.isArray(value)) {
    for (const [index, element] of value.entries()) {
      yield* referencesInValue(element, property, model, pointer(path, index))
    }
  } else if (isJsonObject(value)) {
    yield* referencesIn(value, model, path)
  } else if (property.relationship && typeof value === 'string') {
    yield { path, text: value, target: targetOfCanonical(value) }
  }
}

/** The relationships in `resource` whose targets do not exist, as problems below `path`. */
export async function missingReferences(
  resource: JsonObject,
  path: string,
  model: Model,
  exists: (target: Target) => Promise<boolean>,
): Promise<Problem[]> {
  const problems: Problem[] = []
  for (const { path: at, text, target } of referencesIn(resource, model, path)) {
    if (target !== null && (await exists(target))) continue
    const message = `nothing is at the end of this relationship: ${text}`
    problems.push({ path: at, code: 'REFERENCE_MISSING', message })
  }
  return problems
}

/** A resource that a relationship leads to; `text` is its canonical JSON, null if there is none. */
export interface Resolved extends Target {
  readonly text: string | null
}

/** Resources that are resolved for one transaction, and the characters of them. */
const RESOLVED_MAX = 50_000
const CHARACTERS_MAX = 16 * 1024 * 1024

/**
 * Resolves relationships level by level: those in some resources, those in the resources they lead to,
 * and so on. Each resource is read once; beyond RESOLVED_MAX none is read.
 */
export class Resolution {
  readonly #model: Model
  readonly #read: (targets: readonly Target[]) => Promise<(string | null)[]>
  readonly #seen = new Set<string>()
  #characters = 0

  /** `read` gives the texts of resources; null for those that do not exist or may not be read. */
  constructor(model: Model, read: (targets: readonly Target[]) => Promise<(string | null)[]>) {
    this.#model = model
    this.#read = read
  }

  /**
   * The resources that `roots` lead to within `levels`, except those that were resolved before; `named`
   * are further resources of the first level.
   */
  async of(
    roots: readonly JsonObject[],
    levels: number,
    named: readonly Target[] = [],
  ): Promise<Resolved[]> {
    const resolved: Resolved[] = []
    let targets = this.#unseen([...named, ...this.#targetsIn(roots)])
    for (let level = 0; level < levels && targets.length > 0; level += 1) {
      const texts = await this.#read(targets)
      const next: JsonObject[] = []
      for (const [at, target] of targets.entries()) {
        const text = texts[at] ?? null
        resolved.push({ ...target, text })
        if (text === null) continue
        this.#characters += text.length
        next.push(objectIn(text))
      }
      targets = level + 1 < levels ? this.#unseen(this.#targetsIn(next)) : []
    }
    return resolved
  }

  #targetsIn(resources: readonly JsonObject[]): Target[] {
    return resources.flatMap((resource) =>
      [...referencesIn(resource, this.#model)].flatMap(({ target }) => target ?? []),
    )
  }

  #unseen(targets: readonly Target[]): Target[] {
    return targets.filter(({ type, id }) => {
      const key = `${type}#${id}`
      if (this.#seen.has(key) || this.#model.type(type) === null) return false
      if (this.#seen.size >= RESOLVED_MAX || this.#characters > CHARACTERS_MAX) return false
      this.#seen.add(key)
      return true
    })
  }
}
