import type { DeclarationKind, Decorator, Primitive } from '../language/model-file.ts'

/** A property of a type, checked. */
export interface Property {
  readonly name: string
  readonly relationship: boolean
  readonly array: boolean
  readonly optional: boolean
  /** What it holds: a built-in type, or else `type`. */
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
  /** Of an enum. */
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
