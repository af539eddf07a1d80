import type { JsonObject } from '../../base/json.ts'
import {
  FIELD_TYPES,
  type FieldType,
  type Filter,
  filterOf,
  projected,
  type TypeOf,
} from '../../filter/index.ts'
import { NetworkError } from '../errors.ts'
import {
  type Model,
  type Property,
  propertyAt,
  type Target,
  type TypeDeclaration,
  targetOfCanonical,
} from '../model/model.ts'
import { canonical } from '../queries/predicate.ts'
import { objectIn } from './database.ts'
import type { Guard } from './guard.ts'
import { RESOLVED_MAX, Resolution, withRelationships } from './references.ts'

/** Returns the types of the fields that a filter for instances of `type` may use. */
function fieldTypesOf(model: Model, type: TypeDeclaration): TypeOf {
  return (path) => {
    if (path.at(-1) === '$class') return FIELD_TYPES.text
    const property = propertyAt(model, type, path)
    return property === null ? undefined : fieldTypeOf(property, model)
  }
}

function fieldTypeOf(property: Property, model: Model): FieldType {
  const { type, relationship } = property
  /** Converts a string to its stored form, because filters and patterns are applied to stored values. */
  const read = (text: unknown) =>
    typeof text === 'string' ? canonical(text, property, model) : undefined
  switch (property.primitive) {
    case 'String':
      return FIELD_TYPES.text
    case 'Boolean':
      return FIELD_TYPES.boolean
    case 'Double':
    case 'Integer':
    case 'Long':
      // Filters on Integer and Long fields accept fractions, because without `strictNumbers` a field can contain 1.5.
      return FIELD_TYPES.number
    case 'DateTime':
      return { ...FIELD_TYPES.dateTime, read }
    case null:
      if (relationship) return { kind: 'text', expected: `a relationship to ${type?.name}`, read }
      if (type?.kind !== 'enum') return FIELD_TYPES.compound
      return {
        kind: 'text',
        expected: `a value of ${type.name}`,
        read: (text) => (typeof text === 'string' && type.values.has(text) ? text : undefined),
      }
  }
}

/** Maximum levels of relationships that are followed. */
const DEPTH_MAX = 16

/**
 * Replaces relationships with the resources to which they refer, recursively, up to RESOLVED_MAX resources. A
 * relationship remains a string if this resource does not exist, if the caller may not read it, or if the relationship
 * is inside of this resource (a cycle).
 */
export class Resolver {
  readonly #model: Model
  readonly #resolution: Resolution
  readonly #read = new Map<string, JsonObject>()
  #followed = 0

  /** `guard` reads the resources. */
  constructor(guard: Guard) {
    this.#model = guard.definition.model
    const read = (targets: readonly Target[]) => guard.readAll(targets)
    this.#resolution = new Resolution(this.#model, read, Number.POSITIVE_INFINITY)
  }

  /** Resolves the relationships in `shown`: the resource `whole`, or only some of its fields. */
  async resolved(shown: JsonObject, whole: JsonObject): Promise<JsonObject> {
    const { $class = null } = whole
    const root = { ...shown, $class }
    for (const { resource, ...target } of await this.#resolution.of([root], DEPTH_MAX)) {
      if (resource !== null) this.#read.set(keyOf(target), resource)
    }
    const identifier = this.#model.type(String($class))?.identifier ?? ''
    const self = { type: String($class), id: String(whole[identifier]) }
    const resolved = this.#replaced(root, [keyOf(self)])
    if (!Object.hasOwn(shown, '$class')) delete resolved.$class
    return resolved
  }

  #replaced(value: JsonObject, above: readonly string[]): JsonObject {
    return withRelationships(value, this.#model, (text) => {
      const target = targetOfCanonical(text)
      const key = target === null ? '' : keyOf(target)
      if (above.includes(key) || above.length > DEPTH_MAX) return text
      this.#followed += 1
      if (this.#followed > RESOLVED_MAX) {
        const message = `include=resolve follows at most ${RESOLVED_MAX} relationships: request fewer resources`
        throw new NetworkError('FILTER_INVALID', message)
      }
      const resource = this.#read.get(key)
      return resource === undefined ? text : this.#replaced(resource, [...above, key])
    })
  }
}

function keyOf({ type, id }: Target): string {
  return `${type}#${id}`
}

export interface Listing {
  /** Number of matching resources, ignoring `limit` and `offset`. */
  readonly total: number
  /** The resources as JSON texts, page by page. */
  readonly pages: AsyncIterable<string[]>
}

const NO_FILTER: Filter = {
  where: null,
  order: [],
  limit: null,
  offset: null,
  fields: null,
  resolve: false,
}

/** Parses the filter in the query of a request for instances of `type`. Errors: FilterError. */
export function resourceFilter(
  query: Readonly<Record<string, unknown>>,
  model: Model,
  type: TypeDeclaration,
): Filter {
  const filter = filterOf(query, { typeOf: fieldTypesOf(model, type), mayResolve: true })
  if (filter === null) return NO_FILTER
  // Replaces `where={}`, which matches all resources, with null, so that the store does not evaluate a predicate.
  const { where } = filter
  return where?.kind === 'all' && where.of.length === 0 ? { ...filter, where: null } : filter
}

/** Returns the resources of `type` that match `filter` and that the caller may read. */
export async function listResources(
  guard: Guard,
  type: TypeDeclaration,
  filter: Filter,
): Promise<Listing> {
  const { where, order, limit, offset } = filter
  const selection = { type, where, order, limit, offset: offset ?? 0 }
  const total = await guard.count(selection)
  const resolver = new Resolver(guard)
  async function* pages(): AsyncGenerator<string[]> {
    for await (const page of guard.select(selection)) {
      const shown: string[] = []
      for (const { text } of page) shown.push(await presented(text, filter, resolver))
      yield shown
    }
  }
  return { total, pages: pages() }
}

/** Returns the text of a resource for a reply, with the requested fields and resolved relationships. */
export async function presented(
  text: string,
  { fields, resolve }: Pick<Filter, 'fields' | 'resolve'>,
  resolver: Resolver,
): Promise<string> {
  if (fields === null && !resolve) return text
  const resource = objectIn(text)
  const shown = fields === null ? resource : projected(resource, fields)
  return JSON.stringify(resolve ? await resolver.resolved(shown, resource) : shown)
}
