import { isJsonObject, type Json, type JsonObject } from '../../base/json.ts'
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
  type TypeDeclaration,
  targetOfCanonical,
} from '../model/model.ts'
import { instantOf } from '../model/validation.ts'
import { canonical } from '../queries/predicate.ts'
import { objectIn, type Selection, type StoredResource } from './database.ts'
import type { Guard, Source } from './guard.ts'

/** The fields that a filter over instances of `type` may use. */
function fieldTypesOf(model: Model, type: TypeDeclaration): TypeOf {
  return (path) => {
    if (path.at(-1) === '$class') return FIELD_TYPES.text
    const property = propertyAt(model, type, path)
    return property === null ? undefined : fieldTypeOf(property, model)
  }
}

function fieldTypeOf(property: Property, model: Model): FieldType {
  const { type, relationship } = property
  switch (property.primitive) {
    case 'String':
      return FIELD_TYPES.text
    case 'Boolean':
      return FIELD_TYPES.boolean
    case 'Double':
      return FIELD_TYPES.number
    case 'Integer':
    case 'Long':
      // With lenient numbers such a field may hold 1.5.
      return FIELD_TYPES.number
    case 'DateTime':
      return { ...FIELD_TYPES.dateTime, read: (given) => instantIn(given) }
    case null:
      if (relationship) return relationshipType(property, model)
      if (type?.kind !== 'enum') return FIELD_TYPES.compound
      return {
        kind: 'text',
        expected: `a value of ${type.name}`,
        read: (given) => (typeof given === 'string' && type.values.has(given) ? given : undefined),
      }
  }
}

function instantIn(given: unknown): string | undefined {
  return typeof given === 'string' ? (instantOf(given) ?? undefined) : undefined
}

/** Compared in its stored form; patterns apply to the stored text. */
function relationshipType(property: Property, model: Model): FieldType {
  return {
    kind: 'text',
    expected: `a relationship to ${property.type?.name}`,
    read: (given) => (typeof given === 'string' ? canonical(given, property, model) : undefined),
  }
}

/** Relationships that one request may follow. */
const FOLLOWED_MAX = 50_000
/** Levels of relationships that are followed. */
const DEPTH_MAX = 16

/**
 * Replaces relationships by their resources, recursively. A relationship stays a text if its resource is
 * missing, may not be read, or contains it, which ends cycles.
 */
export class Resolver {
  readonly #source: Source
  readonly #read = new Map<string, JsonObject | null>()
  #followed = 0

  constructor(source: Source) {
    this.#source = source
  }

  /** Resolves the relationships in `shown`, which is `whole` or a part of it. */
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

export interface Listing {
  /** How many there are without `limit` and `offset`. */
  readonly total: number
  /** The resources as JSON texts, page by page. */
  readonly pages: AsyncIterable<string[]>
}

/** Resources that access rules decide about at once. */
const READ_AT_ONCE = 256

const NO_FILTER: Filter = {
  where: null,
  order: [],
  limit: null,
  offset: null,
  fields: null,
  resolve: false,
}

/** The filter in the query of a request for instances of `type`. Errors: FilterError. */
export function resourceFilter(
  query: Readonly<Record<string, unknown>>,
  model: Model,
  type: TypeDeclaration,
): Filter {
  const filter = filterOf(query, { typeOf: fieldTypesOf(model, type), mayResolve: true })
  if (filter === null) return NO_FILTER
  // `where={}` asks for everything, which is counted and listed without looking at resources.
  const { where } = filter
  return where?.kind === 'all' && where.of.length === 0 ? { ...filter, where: null } : filter
}

/** The resources of `type` that `filter` asks for and that the caller may read. */
export async function listResources(
  source: Source,
  type: TypeDeclaration,
  filter: Filter,
): Promise<Listing> {
  const { where, order, limit, offset } = filter
  const selection = { type, where, order, limit, offset: offset ?? 0 }
  const { total, pages } = await readable(source, selection)
  const resolver = new Resolver(source)
  async function* texts(): AsyncGenerator<string[]> {
    for await (const page of pages) {
      const shown: string[] = []
      for (const { text } of page) shown.push(await presentedText(text, filter, resolver))
      yield shown
    }
  }
  return { total, pages: texts() }
}

/** The readable part of a selection; `limit` and `offset` count readable resources only. */
async function readable(
  { database, guard }: Source,
  selection: Selection,
): Promise<{ total: number; pages: AsyncIterable<StoredResource[]> }> {
  const type = selection.type.qualifiedName
  switch (guard.readsAll(type)) {
    case false:
      return { total: 0, pages: NO_PAGES }
    case true:
      return { total: await database.count(selection), pages: database.select(selection) }
    case null: {
      const { limit, offset } = selection
      const all = () =>
        readablePages(guard, type, database.select({ ...selection, limit: null, offset: 0 }))
      let total = 0
      for await (const page of all()) total += page.length
      return { total, pages: sliced(all(), offset, limit) }
    }
  }
}

const NO_PAGES: AsyncIterable<StoredResource[]> = { async *[Symbol.asyncIterator]() {} }

async function* readablePages(
  guard: Guard,
  type: string,
  pages: AsyncIterable<StoredResource[]>,
): AsyncGenerator<StoredResource[]> {
  for await (const page of pages) {
    for (let at = 0; at < page.length; at += READ_AT_ONCE) {
      yield await guard.readable(type, page.slice(at, at + READ_AT_ONCE))
    }
  }
}

/** The rows after the first `offset`, at most `limit`. */
async function* sliced<Row>(
  pages: AsyncIterable<Row[]>,
  offset: number,
  limit: number | null,
): AsyncGenerator<Row[]> {
  let skip = offset
  let left = limit ?? Number.POSITIVE_INFINITY
  for await (const page of pages) {
    const rows = page.slice(skip, skip + left)
    skip -= Math.min(skip, page.length)
    left -= rows.length
    if (rows.length > 0) yield rows
    if (left === 0) return
  }
}

/** A resource as it is sent: with the requested fields, and relationships resolved. */
export async function presented(
  resource: JsonObject,
  { fields, resolve }: Pick<Filter, 'fields' | 'resolve'>,
  resolver: Resolver,
): Promise<string> {
  const shown = fields === null ? resource : projected(resource, fields)
  return JSON.stringify(resolve ? await resolver.resolved(shown, resource) : shown)
}

/** Like `presented`, from the text of a resource. */
export async function presentedText(
  text: string,
  filter: Pick<Filter, 'fields' | 'resolve'>,
  resolver: Resolver,
): Promise<string> {
  const isWhole = filter.fields === null && !filter.resolve
  return isWhole ? text : presented(objectIn(text), filter, resolver)
}
