import {
  type BusinessNetwork,
  type Caller,
  type FieldDefault,
  type Model,
  NetworkError,
  type NetworkSummary,
  type Networks,
  readDefinition,
  SYSTEM_NAMESPACE,
  type TypeDeclaration,
} from '../network/index.ts'

/** A network with the names of its types in URLs. */
export interface ServedNetwork {
  readonly network: BusinessNetwork
  readonly aliases: Aliases
}

/** When the OpenAPI document shows the namespace of a type. `required`: only if the type's short name is ambiguous. */
export type NamespaceStyle = 'always' | 'never' | 'required'

/** Kinds of types that have paths. */
const ROUTED = ['asset', 'participant', 'transaction']

/** Finds, deploys, upgrades and removes networks. */
export class GatewayService {
  readonly #networks: Networks
  readonly #defaultName: string | null
  /** Keys are network definitions. An upgrade has a new definition, and so new aliases. */
  readonly #aliases = new WeakMap<object, Aliases>()

  /** `defaultName` is the network at `/api`; null selects the first network. */
  constructor(networks: Networks, defaultName: string | null) {
    this.#networks = networks
    this.#defaultName = defaultName
  }

  /** Applies the changes that other processes have made to the networks. Called before each request. Errors: StoreError. */
  catchUp(): Promise<void> {
    return this.#networks.catchUp()
  }

  /** Calls `listener` with the name of each network that this or another process removes. */
  onRemoved(listener: (name: string) => void): void {
    this.#networks.onRemoved = listener
  }

  /** Returns the network `name`, or, for null, the network at `/api`. Errors: NETWORK_NOT_FOUND, NETWORK_REMOVED. */
  serve(name: string | null): ServedNetwork {
    const selected = name ?? this.#defaultName ?? this.#networks.list()[0]?.name
    if (selected === undefined)
      throw new NetworkError('NETWORK_NOT_FOUND', 'no network is deployed')
    const network = this.#networks.require(selected)
    return { network, aliases: this.#cachedAliases(network) }
  }

  list(): NetworkSummary[] {
    return this.#networks.list()
  }

  async deploy(archive: Buffer, caller: Caller): Promise<NetworkSummary> {
    const network = await this.#networks.deploy(readDefinition(archive), caller)
    return this.#summary(network.definition.name)
  }

  /** Replaces a network with the network in a `.bna`. Errors: NETWORK_NOT_FOUND, NETWORK_INVALID. */
  async upgrade(
    name: string,
    archive: Buffer,
    { defaults, caller }: { readonly defaults: readonly FieldDefault[]; readonly caller: Caller },
  ): Promise<NetworkSummary> {
    const next = readDefinition(archive)
    if (next.name !== name) {
      throw new NetworkError(
        'NETWORK_NOT_FOUND',
        `the archive contains the network ${next.name}, not ${name}`,
      )
    }
    await this.#networks.upgrade(next, defaults, caller)
    return this.#summary(name)
  }

  /** Whether a network, deployed or removed, has this name. */
  isNamed(name: string): boolean {
    return this.#networks.recorded().includes(name)
  }

  /** Removes a network permanently. Errors: NETWORK_NOT_FOUND, NETWORK_REMOVED. */
  remove(name: string, caller: Caller): Promise<void> {
    return this.#networks.remove(name, caller)
  }

  #summary(name: string): NetworkSummary {
    const found = this.#networks.list().find((each) => each.name === name)
    if (found === undefined) throw new NetworkError('NETWORK_NOT_FOUND', `unknown network ${name}`)
    return found
  }

  #cachedAliases({ definition }: BusinessNetwork): Aliases {
    const known = this.#aliases.get(definition)
    if (known !== undefined) return known
    const made = new Aliases(definition.model)
    this.#aliases.set(definition, made)
    return made
  }
}

/** Returns the types of `model` that have paths: all concrete types with resources, except system types. */
export function routedTypes(model: Model): TypeDeclaration[] {
  return [...model.types()].filter(
    ({ kind, abstract, namespace }) =>
      ROUTED.includes(kind) && !abstract && namespace !== SYSTEM_NAMESPACE,
  )
}

/**
 * Names of types in URLs: the qualified name and, unless ambiguous, the short name (`Commodity`) and its lower-case
 * plural (`commodities`).
 */
export class Aliases {
  readonly #types = new Map<string, TypeDeclaration>()
  readonly #ambiguous = new Set<string>()

  constructor(model: Model) {
    const types = routedTypes(model)
    for (const type of types) this.#types.set(type.qualifiedName, type)
    for (const type of types) this.#add(type.name, type)
    // Names of types take precedence over plurals.
    const names = new Set(this.#types.keys())
    for (const type of types) {
      const plural = formatPlural(type.name)
      if (!names.has(plural)) this.#add(plural, type)
    }
    for (const name of this.#ambiguous) this.#types.delete(name)
  }

  find(name: string): TypeDeclaration | null {
    return this.#types.get(name) ?? null
  }

  /** Returns the name of `type` in the OpenAPI document. */
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

/** Returns the plural in lower case: `commodities` for `Commodity`. */
function formatPlural(name: string): string {
  const lower = name.toLowerCase()
  if (/[^aeiou]y$/.test(lower)) return `${lower.slice(0, -1)}ies`
  return /(?:s|x|z|ch|sh)$/.test(lower) ? `${lower}es` : `${lower}s`
}
