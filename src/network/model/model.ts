import type { DeclarationKind, Decorator, Primitive } from '../language/model-parser.ts'

/** A property of a type, checked. */
export interface Property {
  readonly name: string
  readonly relationship: boolean
  readonly array: boolean
  readonly optional: boolean
  /** The built-in type of its values; null if `type` is set. */
  readonly primitive: Primitive | null
  /** The declared type; null exactly when it is built in. */
  readonly type: TypeDeclaration | null
  readonly default: string | number | boolean | null
  readonly regex: RegExp | null
  readonly range: { readonly lower: number | null; readonly upper: number | null } | null
  readonly decorators: readonly Decorator[]
}

/** A type of a network, checked. */
export interface TypeDeclaration {
  readonly kind: DeclarationKind
  readonly qualifiedName: string
  readonly namespace: string
  readonly name: string
  readonly abstract: boolean
  readonly superType: TypeDeclaration | null
  /** The identifying property, own or inherited; null where instances have no identity. */
  readonly identifier: string | null
  /** By name, inherited ones first. */
  readonly properties: ReadonlyMap<string, Property>
  /** The values of an enum. */
  readonly values: ReadonlySet<string>
  readonly decorators: readonly Decorator[]
}

/** All types of a network, the system's included. */
export class Model {
  readonly #types: ReadonlyMap<string, TypeDeclaration>

  constructor(types: ReadonlyMap<string, TypeDeclaration>) {
    this.#types = types
  }

  /** The type of that qualified name, or null. */
  type(qualifiedName: string): TypeDeclaration | null {
    return this.#types.get(qualifiedName) ?? null
  }

  /** All types, in the order they were declared, the system's first. */
  types(): Iterable<TypeDeclaration> {
    return this.#types.values()
  }

  /** Whether there is a namespace of this name, or, with `deep`, one below it. */
  hasNamespace(namespace: string, deep: boolean): boolean {
    for (const type of this.#types.values()) {
      if (type.namespace === namespace) return true
      if (deep && type.namespace.startsWith(`${namespace}.`)) return true
    }
    return false
  }
}

/** Whether `type` is `ancestor` or extends it. */
export function isA(type: TypeDeclaration, ancestor: TypeDeclaration | string): boolean {
  const name = typeof ancestor === 'string' ? ancestor : ancestor.qualifiedName
  for (let at: TypeDeclaration | null = type; at !== null; at = at.superType) {
    if (at.qualifiedName === name) return true
  }
  return false
}

/** Kinds whose instances have an identity, and so can be related to. */
export function isIdentified({ kind }: TypeDeclaration): boolean {
  return kind !== 'concept' && kind !== 'enum'
}

/** How a property's type is written in a model file. */
export function typeText({ primitive, type, array }: Property): string {
  return `${primitive ?? type?.name ?? ''}${array ? '[]' : ''}`
}

/**
 * The property that `path` leads to from an instance of `type`, through concepts and nested
 * resources; null when it leads to none. Where a member may hold one of several types, a property of
 * any of them counts. Nothing lies behind a relationship: it is a text.
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

/** The identity of a resource, which may not exist. */
export interface Target {
  /** Qualified name. */
  readonly type: string
  readonly id: string
}

const SCHEME = 'resource:'
/** An id that is written as it is. */
const PLAIN_ID = /^[\w.-]*$/

/**
 * The canonical text of a relationship, `resource:<qualified type>#<id>`. The id is written as in a
 * URI's fragment (RFC 3986), so other characters than plain ASCII are percent-encoded.
 */
export function relationshipText({ type, id }: Target): string {
  const text = PLAIN_ID.test(id) ? id : encodeURI(id).replaceAll('#', '%23')
  return `${SCHEME}${type}#${text}`
}

/**
 * Parses the text of a relationship to `declared`: `resource:ns.Type#id`, `ns.Type#id`, or a
 * bare id of the declared type. Returns the reason as a text if it is invalid.
 */
export function targetOf(text: string, declared: TypeDeclaration, model: Model): Target | string {
  const rest = text.startsWith(SCHEME) ? text.slice(SCHEME.length) : text
  const hash = rest.indexOf('#')
  if (hash === -1) {
    if (rest !== text) return `a relationship is written ${SCHEME}<type>#<id>`
    return rest === '' ? 'the id is empty' : { type: declared.qualifiedName, id: rest }
  }
  const type = model.type(rest.slice(0, hash))
  if (type === null) return `there is no type ${rest.slice(0, hash)}`
  if (!isA(type, declared)) return `${type.qualifiedName} is no ${declared.qualifiedName}`
  const id = decoded(rest.slice(hash + 1))
  return id === '' ? 'the id is empty' : { type: type.qualifiedName, id }
}

/** The target of a canonical text. */
export function targetOfCanonical(text: string): Target | null {
  const hash = text.indexOf('#')
  if (!text.startsWith(SCHEME) || hash === -1) return null
  return { type: text.slice(SCHEME.length, hash), id: decoded(text.slice(hash + 1)) }
}

function decoded(id: string): string {
  if (!id.includes('%')) return id
  try {
    return decodeURIComponent(id)
  } catch {
    // A percent sign that encodes nothing is one.
    return id
  }
}
