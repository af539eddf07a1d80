import {
  type BusinessNetwork,
  definitionIn,
  type FieldDefault,
  NetworkError,
  type NetworkSummary,
  type Networks,
} from '../network/index.ts'
import { Aliases } from './aliases.ts'

/** A network with the names under which its types are served. */
export interface ServedNetwork {
  readonly network: BusinessNetwork
  readonly aliases: Aliases
}

/** The networks of the gateway: which one a path means, and what is deployed. */
export class GatewayService {
  readonly #networks: Networks
  readonly #defaultName: string | null
  /** By network, made for one definition; an upgrade makes them anew. */
  readonly #aliases = new WeakMap<object, Aliases>()

  /** `defaultName` is the network at `/api`; null takes the first there is. */
  constructor(networks: Networks, defaultName: string | null) {
    this.#networks = networks
    this.#defaultName = defaultName
  }

  /** The network of that name; the one at `/api` without one. Errors: NETWORK_NOT_FOUND, NETWORK_REMOVED. */
  serve(name: string | null): ServedNetwork {
    const wanted = name ?? this.#defaultName ?? this.#networks.list()[0]?.name
    if (wanted === undefined) throw new NetworkError('NETWORK_NOT_FOUND', 'no network is deployed')
    const network = this.#networks.require(wanted)
    return { network, aliases: this.#aliasesOf(network) }
  }

  /** What is deployed. */
  list(): NetworkSummary[] {
    return this.#networks.list()
  }

  /** Deploys the network in a `.bna`. */
  async deploy(archive: Buffer): Promise<NetworkSummary> {
    const network = await this.#networks.deploy(definitionIn(archive))
    return this.#summary(network.definition.name)
  }

  /** Exchanges a network for the one in a `.bna`. Errors: NETWORK_NOT_FOUND, NETWORK_INVALID. */
  async upgrade(
    name: string,
    archive: Buffer,
    defaults: readonly FieldDefault[],
  ): Promise<NetworkSummary> {
    const next = definitionIn(archive)
    if (next.name !== name) {
      throw new NetworkError('NETWORK_NOT_FOUND', `the archive is of ${next.name}, not of ${name}`)
    }
    await this.#networks.upgrade(next, defaults)
    return this.#summary(name)
  }

  /** Whether a network has, or had, that name. */
  isNamed(name: string): boolean {
    return this.#networks.recorded().includes(name)
  }

  /** Removes a network for good. Errors: NETWORK_NOT_FOUND, NETWORK_REMOVED. */
  remove(name: string): Promise<void> {
    return this.#networks.remove(name)
  }

  #summary(name: string): NetworkSummary {
    const found = this.#networks.list().find((each) => each.name === name)
    if (found === undefined) throw new NetworkError('NETWORK_NOT_FOUND', `no network ${name}`)
    return found
  }

  #aliasesOf({ definition }: BusinessNetwork): Aliases {
    const known = this.#aliases.get(definition)
    if (known !== undefined) return known
    const made = new Aliases(definition.model)
    this.#aliases.set(definition, made)
    return made
  }
}
