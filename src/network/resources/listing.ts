import type { JsonObject } from '../../base/json.ts'
import { turn } from '../../base/turn.ts'
import {
  FIELD_TYPES,
  type FieldType,
  type Filter,
  parseFilter,
  projected,
  type TypeOf,
} from '../../filter/index.ts'
import { NetworkError } from '../errors.ts'
import {
  type Model,
  type Property,
  parseTarget,
  propertyAt,
  type Target,
  type TypeDeclaration,
} from '../model/model.ts'
import { systemType } from '../model/system.ts'
import { canonical } from '../queries/predicate.ts'
import { parseStored, type StoredResource } from './database.ts'
import type { Guard } from './guard.ts'
import {
  RESOLVED_CHARACTERS_MAX,
  RESOLVED_MAX,
  Resolution,
  withRelationships,
} from './references.ts'

/** Returns the types of the fields that a filter for instances of `type` may use. */
function filterTypes(model: Model, type: TypeDeclaration): TypeOf {
  return (path) => {
    if (path.at(-1) === '$class') return FIELD_TYPES.text
    const property = propertyAt(model, type, path)
    return property === null ? undefined : filterType(property, model)
  }
}

function filterType(property: Property, model: Model): FieldType {
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
      // Filters on Integer and Long fields accept fractions, because a bound can be a fraction.
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

/** Characters of resolved resources up to which they stay in memory between the rows of a list. */
const KEPT_CHARACTERS_MAX = 1_048_576
/** Maximum levels of relationships that are followed. */
const DEPTH_MAX = 16

/**
 * Replaces relationships with the resources to which they refer, recursively. A relationship remains a string if this
 * resource does not exist, if the caller may not read it, or if the relationship is inside of this resource (a cycle).
 */
export class Resolver {
  readonly #guard: Guard
  readonly #model: Model
  /** The resources that were read, with the characters of their texts. */
  readonly #read = new Map<string, { resource: JsonObject; characters: number }>()
  #resolution: Resolution
  /** Relationships followed in the current resource, and the characters of the resources that replace them. */
  #followed = 0
  #characters = 0

  /** `guard` reads the resources. */
  constructor(guard: Guard) {
    this.#guard = guard
    this.#model = guard.definition.model
    this.#resolution = this.#newResolution()
  }

  /**
   * Resolves the relationships in `shown`: the resource `whole`, or only some of its fields. Errors: FILTER_INVALID if
   * they are more than RESOLVED_MAX, or their resources larger than RESOLVED_CHARACTERS_MAX.
   */
  resolved(shown: JsonObject, whole: JsonObject): Promise<JsonObject> {
    return this.#guard.resolving(() => this.#resolved(shown, whole))
  }

  async #resolved(shown: JsonObject, whole: JsonObject): Promise<JsonObject> {
    const { $class = null } = whole
    const root = { ...shown, $class }
    await this.#readAll(root)
    await this.#guard.pause()
    this.#followed = 0
    this.#characters = 0
    const identifier = this.#model.type(String($class))?.identifier ?? ''
    const self = { type: String($class), id: String(whole[identifier]) }
    const resolved = this.#replaced(root, [formatTarget(self)])
    // Large resources are read again for the next row, so that a slow client does not keep them in memory.
    if (this.#characters > KEPT_CHARACTERS_MAX) this.#forget()
    if (!Object.hasOwn(shown, '$class')) delete resolved.$class
    if (this.#followed > 0) await this.#guard.pause()
    return resolved
  }

  async #readAll(root: JsonObject): Promise<void> {
    const isFirst = this.#read.size === 0
    for (const { resource, characters, ...target } of await this.#resolution.of(
      [root],
      DEPTH_MAX,
    )) {
      if (resource === null) continue
      this.#read.set(formatTarget(target), { resource, characters })
    }
    if (!this.#resolution.isFull) return
    // Forgets the resources of earlier calls, so that memory does not grow with a list.
    this.#forget()
    if (isFirst) throw tooLarge()
    await this.#readAll(root)
  }

  #forget(): void {
    this.#read.clear()
    this.#resolution = this.#newResolution()
  }

  #newResolution(): Resolution {
    return new Resolution(this.#model, (targets) => this.#guard.readAll(targets))
  }

  #replaced(value: JsonObject, above: readonly string[]): JsonObject {
    return withRelationships(value, this.#model, (text) => {
      const target = parseTarget(text)
      const key = target === null ? '' : formatTarget(target)
      if (above.includes(key) || above.length > DEPTH_MAX) return text
      const read = this.#read.get(key)
      if (read === undefined) return text
      this.#followed += 1
      this.#characters += read.characters
      if (this.#followed > RESOLVED_MAX || this.#characters > RESOLVED_CHARACTERS_MAX) {
        throw tooLarge()
      }
      return this.#replaced(read.resource, [...above, key])
    })
  }
}

function tooLarge(): NetworkError {
  const message = `include=resolve follows at most ${RESOLVED_MAX} relationships of a resource, to resources of at most ${RESOLVED_CHARACTERS_MAX} characters: read the resources one by one`
  return new NetworkError('FILTER_INVALID', message)
}

function formatTarget({ type, id }: Target): string {
  return `${type}#${id}`
}

export interface Listing {
  /** Number of matching resources, ignoring `limit` and `offset`. */
  readonly total: number
  /** The resources as JSON texts, page by page. A page has few resources if they are large. */
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
  const filter = parseFilter(query, { typeOf: filterTypes(model, type), mayResolve: true })
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
  return { total, pages: presentedPages(guard.select(selection), filter, guard) }
}

/** Size of a page of a list in characters. The resource that reaches this size is the last of its page. */
const PAGE_CHARACTERS = 65_536

/** Yields the texts of resources for a reply; see `presented`. */
export async function* presentedPages(
  pages: AsyncIterable<StoredResource[]>,
  filter: Pick<Filter, 'fields' | 'resolve'>,
  guard: Guard,
): AsyncGenerator<string[]> {
  const resolver = new Resolver(guard)
  let shown: string[] = []
  let characters = 0
  /** Characters of the resources that were read, which may be many more than those of their selected fields. */
  let read = 0
  for await (const page of pages) {
    for (let next = page.shift(); next !== undefined; next = page.shift()) {
      read += next.text.length
      const row = await presented(next.text, filter, resolver)
      shown.push(row)
      characters += row.length
      if (characters >= PAGE_CHARACTERS) {
        yield shown
        shown = []
        characters = 0
      }
      if (read < PAGE_CHARACTERS) continue
      read = 0
      // Lets the event loop serve other requests between two pages.
      await turn()
    }
  }
  yield shown
}

const IDENTITY_HEAD = `{"$class":"${systemType('Identity')}",`

/** Returns the text of a resource for a reply, with the requested fields and resolved relationships. */
export async function presented(
  text: string,
  { fields, resolve }: Pick<Filter, 'fields' | 'resolve'>,
  resolver: Resolver,
): Promise<string> {
  // Composer's clients reject an unknown member of its system types, so `canIssue` is sent only if a filter names it.
  const isIssuer = fields === null && text.startsWith(IDENTITY_HEAD) && text.includes('"canIssue"')
  if (fields === null && !resolve && !isIssuer) return text
  const resource = parseStored(text)
  const shown = fields === null ? resource : projected(resource, fields)
  if (isIssuer) delete shown.canIssue
  return JSON.stringify(resolve ? await resolver.resolved(shown, resource) : shown)
}
