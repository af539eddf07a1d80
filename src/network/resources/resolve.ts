import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
import { NetworkError } from '../errors.ts'
import type { Property, TypeDeclaration } from '../model/model.ts'
import { targetOfCanonical } from '../model/relationship.ts'
import type { Source } from './guard.ts'
import { objectIn } from './item.ts'

/** Relationships that one request may follow: in a net of them ways multiply. */
const FOLLOWED_MAX = 50_000
/** How far relationships of relationships are followed. */
const DEPTH_MAX = 16

/**
 * Puts resources in the place of the relationships that lead to them, and so on inwards. A
 * relationship stays a text where its resource is missing, may not be read, or is the one it stands
 * in: so a cycle ends where it closes.
 */
export class Resolver {
  readonly #source: Source
  readonly #read = new Map<string, JsonObject | null>()
  #followed = 0

  constructor(source: Source) {
    this.#source = source
  }

  /** `shown`, which is `whole` or a part of it, with its relationships resolved. */
  resolved(shown: JsonObject, whole: JsonObject): Promise<JsonObject> {
    const type = this.#typeOf(whole)
    const id = type?.identifier === null ? undefined : whole[type?.identifier ?? '']
    const self = type === null ? '' : `${type.qualifiedName}#${String(id)}`
    return this.#object(shown, type, [self])
  }

  async #object(
    value: JsonObject,
    type: TypeDeclaration | null,
    above: readonly string[],
  ): Promise<JsonObject> {
    const resolved: JsonObject = {}
    for (const [name, member] of Object.entries(value)) {
      const property = type?.properties.get(name)
      resolved[name] = property === undefined ? member : await this.#member(member, property, above)
    }
    return resolved
  }

  async #member(value: Json, property: Property, above: readonly string[]): Promise<Json> {
    if (property.type === null) return value
    if (Array.isArray(value)) {
      const list: Json[] = []
      for (const element of value) list.push(await this.#member(element, property, above))
      return list
    }
    if (isJsonObject(value)) return this.#object(value, this.#typeOf(value), above)
    if (!property.relationship || typeof value !== 'string') return value
    return (await this.#follow(value, above)) ?? value
  }

  async #follow(text: string, above: readonly string[]): Promise<JsonObject | null> {
    const target = targetOfCanonical(text)
    if (target === null) return null
    const key = `${target.type}#${target.id}`
    if (above.includes(key) || above.length > DEPTH_MAX) return null
    this.#followed += 1
    if (this.#followed > FOLLOWED_MAX) {
      const message = `include=resolve follows ${FOLLOWED_MAX} relationships at most: ask for less`
      throw new NetworkError('FILTER_INVALID', message)
    }
    let resource = this.#read.get(key)
    if (resource === undefined) {
      resource = await this.#load(target)
      this.#read.set(key, resource)
    }
    if (resource === null) return null
    return this.#object(resource, this.#typeOf(resource), [...above, key])
  }

  async #load(target: { type: string; id: string }): Promise<JsonObject | null> {
    const { database, guard, model } = this.#source
    if (model.type(target.type) === null) return null
    const stored = await database.read(target)
    if (stored === null) return null
    const value = objectIn(stored.text)
    return (await guard.allows('READ', target, () => value)) ? value : null
  }

  #typeOf({ $class: name }: JsonObject): TypeDeclaration | null {
    return typeof name === 'string' ? this.#source.model.type(name) : null
  }
}
