import type { DeclarationKind, Decorator, Primitive } from '../language/model-parser.ts'

/** A checked property of a type. */
export interface Property {
  readonly name: string
  readonly relationship: boolean
  readonly array: boolean
  readonly optional: boolean
  /** The built-in type of the property; null if `type` is set. */
  readonly primitive: Primitive | null
  /** The declared type of the property; null if `primitive` is set. */
  readonly type: TypeDeclaration | null
  readonly default: string | number | boolean | null
  readonly regex: RegExp | null
  readonly range: { readonly lower: number | null; readonly upper: number | null } | null
  readonly decorators: readonly Decorator[]
}

/** A checked type of a network. */
export interface TypeDeclaration {
  readonly kind: DeclarationKind
  readonly qualifiedName: string
  readonly namespace: string
  readonly name: string
  readonly abstract: boolean
  readonly superType: TypeDeclaration | null
  /** Name of the identifying property, own or inherited; null if instances have no identity. */
  readonly identifier: string | null
  /** The type's own and inherited properties by name, inherited properties first. */
  readonly properties: ReadonlyMap<string, Property>
  /** The values of an enum; empty for other kinds. */
  readonly values: ReadonlySet<string>
  readonly decorators: readonly Decorator[]
}

/** All types of a network, including the system types. */
export class Model {
  readonly #types: ReadonlyMap<string, TypeDeclaration>

  constructor(types: ReadonlyMap<string, TypeDeclaration>) {
    this.#types = types
  }

  type(qualifiedName: string): TypeDeclaration | null {
    return this.#types.get(qualifiedName) ?? null
  }

  /** Returns all types in the order of their declarations, system types first. */
  types(): Iterable<TypeDeclaration> {
    return this.#types.values()
  }

  /** Whether the model has types in `namespace` or, if `deep` is set, in a namespace nested in `namespace`. */
  hasNamespace(namespace: string, deep: boolean): boolean {
    for (const type of this.#types.values()) {
      if (type.namespace === namespace) return true
      if (deep && type.namespace.startsWith(`${namespace}.`)) return true
    }
    return false
  }
}

/** Whether `type` is `ancestor`, or extends `ancestor` directly or indirectly. */
export function isA(type: TypeDeclaration, ancestor: TypeDeclaration | string): boolean {
  const name = typeof ancestor === 'string' ? ancestor : ancestor.qualifiedName
  for (let at: TypeDeclaration | null = type; at !== null; at = at.superType) {
    if (at.qualifiedName === name) return true
  }
  return false
}

/** Whether instances of a type have an identity, so that relationships can point to them. */
export function isIdentified({ kind }: TypeDeclaration): boolean {
  return kind !== 'concept' && kind !== 'enum'
}

/** Returns the type of a property as written in a model file. */
export function formatType({ primitive, type, array }: Property): string {
  return `${primitive ?? type?.name ?? ''}${array ? '[]' : ''}`
}

/**
 * Returns the property at `path` in instances of `type`; null if there is no such property. A path such as
 * `address.city` leads through concepts and nested resources. A nested value can be an instance of a subtype, so the
 * next name of the path can also be a property of a subtype. A path cannot continue after a relationship, because a
 * relationship is a string.
 */
export function propertyAt(
  model: Model,
  type: TypeDeclaration,
  path: readonly string[],
): Property | null {
  let holders: readonly TypeDeclaration[] = [type]
  let found: Property | null = null
  for (const step of path) {
    const property = holders.flatMap((holder) => holder.properties.get(step) ?? [])[0] ?? null
    if (property === null) return null
    found = property
    holders = property.type === null || property.relationship ? [] : subtypes(model, property.type)
  }
  return found
}

function subtypes(model: Model, type: TypeDeclaration): TypeDeclaration[] {
  return [...model.types()].filter((each) => isA(each, type))
}

/** The type and id of a resource, which need not exist. */
export interface Target {
  /** Qualified name of the type. */
  readonly type: string
  readonly id: string
}

const SCHEME = 'resource:'
/** An id without characters to escape. */
const PLAIN_ID = /^[\w.-]*$/

/**
 * Returns the canonical text of a relationship, `resource:<qualified type>#<id>`. The id is percent-encoded as in
 * the fragment of a URI (RFC 3986).
 */
export function formatRelationship({ type, id }: Target): string {
  const text = PLAIN_ID.test(id) ? id : encodeURI(id).replaceAll('#', '%23')
  return `${SCHEME}${type}#${text}`
}

/**
 * Parses the text of a relationship to `declared`: `resource:ns.Type#id`, `ns.Type#id`, or only the id. Returns an
 * error message if the text is invalid.
 */
export function parseRelationship(
  text: string,
  declared: TypeDeclaration,
  model: Model,
): Target | string {
  if (!text.isWellFormed()) return 'the text contains half of a surrogate pair'
  const rest = text.startsWith(SCHEME) ? text.slice(SCHEME.length) : text
  const hash = rest.indexOf('#')
  if (hash === -1) {
    if (rest !== text) return `a relationship must have the form ${SCHEME}<type>#<id>`
    return rest === '' ? 'the id is empty' : { type: declared.qualifiedName, id: rest }
  }
  const type = model.type(rest.slice(0, hash))
  if (type === null) return `there is no type ${rest.slice(0, hash)}`
  if (!isA(type, declared))
    return `the type must be ${declared.qualifiedName}, not ${type.qualifiedName}`
  const id = decodeId(rest.slice(hash + 1))
  return id === '' ? 'the id is empty' : { type: type.qualifiedName, id }
}

/** Returns the target of the canonical text of a relationship; null for any other string. */
export function parseTarget(text: string): Target | null {
  const hash = text.indexOf('#')
  if (!text.startsWith(SCHEME) || hash === -1) return null
  return { type: text.slice(SCHEME.length, hash), id: decodeId(text.slice(hash + 1)) }
}

function decodeId(id: string): string {
  if (!id.includes('%')) return id
  try {
    return decodeURIComponent(id)
  } catch {
    // If the percent-encoding is invalid, the text itself is the id.
    return id
  }
}
