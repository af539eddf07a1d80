import { type Model, SYSTEM_NAMESPACE, type TypeDeclaration } from '../network/index.ts'

/** Which name of a type the OpenAPI page shows. */
export type NamespaceStyle = 'always' | 'never' | 'required'

/** Kinds of types that have paths. */
const ROUTED = ['asset', 'participant', 'transaction']

/** The types of `model` that have paths of their own: concrete, with resources, not the system's. */
export function routedTypes(model: Model): TypeDeclaration[] {
  return [...model.types()].filter(
    ({ kind, abstract, namespace }) =>
      ROUTED.includes(kind) && !abstract && namespace !== SYSTEM_NAMESPACE,
  )
}

/**
 * The names under which a type is served: its qualified name, its short name (`Commodity`) and its
 * lower-case plural (`commodities`), the last two while only one type has them.
 */
export class Aliases {
  readonly #types = new Map<string, TypeDeclaration>()
  readonly #ambiguous = new Set<string>()

  constructor(model: Model) {
    const types = routedTypes(model)
    for (const type of types) this.#types.set(type.qualifiedName, type)
    for (const type of types) this.#add(type.name, type)
    // A plural never takes a name that a type was given.
    const given = new Set(this.#types.keys())
    for (const type of types) {
      const plural = pluralOf(type.name)
      if (!given.has(plural)) this.#add(plural, type)
    }
    for (const name of this.#ambiguous) this.#types.delete(name)
  }

  /** The type served under `name`, or null. */
  find(name: string): TypeDeclaration | null {
    return this.#types.get(name) ?? null
  }

  /** The name under which `type` is shown. */
  shown(type: TypeDeclaration, style: NamespaceStyle): string {
    if (style === 'always') return type.qualifiedName
    return this.#ambiguous.has(type.name) ? type.qualifiedName : type.name
  }

  #add(name: string, type: TypeDeclaration): void {
    const before = this.#types.get(name)
    if (before !== undefined && before !== type) this.#ambiguous.add(name)
    else this.#types.set(name, type)
  }
}

/** `commodities` of `Commodity`. */
function pluralOf(name: string): string {
  const lower = name.toLowerCase()
  if (/[^aeiou]y$/.test(lower)) return `${lower.slice(0, -1)}ies`
  return /(?:s|x|z|ch|sh)$/.test(lower) ? `${lower}es` : `${lower}s`
}
