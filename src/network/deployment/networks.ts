import type { Clock } from '../../base/clock.ts'
import type { LedgerService } from '../../ledger/index.ts'
import { AccessControl } from '../access/control.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import { networkItemId } from '../ownership.ts'
import { BusinessNetwork } from '../resources/business-network.ts'
import { ADMIN } from '../resources/caller.ts'
import { ResourceDatabase } from '../resources/database.ts'
import { EventFeed } from '../resources/event-feed.ts'
import { removed } from '../resources/messages.ts'
import { Recorder } from '../resources/recorder.ts'
import { NO_RESOURCES, registriesOf } from '../resources/registries.ts'
import { ScriptRunner } from '../runtime/script-runner.ts'
import {
  definitionInItem,
  deploymentChanges,
  isTombstone,
  networkItem,
  tombstone,
} from './network-item.ts'
import { type FieldDefault, upgradedResources } from './upgrade.ts'
import {
  type NetworkVerification,
  type VerificationProgress,
  verifyNetwork,
} from './verification.ts'

/** What networks live on. */
export interface NetworksDeps {
  readonly ledger: LedgerService
  readonly clock: Clock
  /** Recorded with each network as what runs it. */
  readonly version: string
  /** Told of a database that should hold a network and does not. */
  readonly warn: (message: string) => void
  /** How long the processors of one transaction may take, milliseconds. */
  readonly deadlineMs: number
  /** Takes what processors say to the console. */
  readonly log: (network: string, level: string, text: string) => void
}

/** A network as lists show it. */
export interface NetworkSummary {
  readonly name: string
  readonly version: string
  readonly description: string
  readonly sha256: string
}

/** The deployed networks of a node: those that its ledger records. */
export class Networks {
  readonly #deps: NetworksDeps
  readonly #networks = new Map<string, BusinessNetwork>()
  /** Names of networks that were removed. */
  readonly #removed = new Set<string>()

  private constructor(deps: NetworksDeps) {
    this.#deps = deps
  }

  /** Finds the networks that the ledger records, and makes their databases theirs. */
  static async open(deps: NetworksDeps): Promise<Networks> {
    const networks = new Networks(deps)
    const { ledger, warn } = deps
    for (const name of await ledger.databases()) {
      const item = await ledger.readItem(name, networkItemId(name))
      if (item === null) continue
      if (isTombstone(item.text)) {
        ledger.ownDatabase(name)
        networks.#removed.add(name)
        continue
      }
      try {
        networks.#add(definitionInItem(item.text, name), null)
      } catch (error) {
        if (!(error instanceof NetworkError)) throw error
        // Its data stay what they were: nobody changes them past rules that cannot be asked.
        ledger.ownDatabase(name)
        warn(`network ${name} is not served: ${error.message}`)
      }
    }
    return networks
  }

  /** All networks, in the order in which they were deployed. */
  list(): NetworkSummary[] {
    return [...this.#networks.values()].map(({ definition }) => {
      const { name, version, description, sha256 } = definition
      return { name, version, description, sha256 }
    })
  }

  /** The network of that name, or null. */
  get(name: string): BusinessNetwork | null {
    return this.#networks.get(name) ?? null
  }

  /** Names of networks that were removed. */
  removed(): string[] {
    return [...this.#removed]
  }

  /** Names of all networks that the ledger records, the removed ones last. */
  recorded(): string[] {
    return [...this.#networks.keys(), ...this.#removed]
  }

  /** The network of that name. Errors: NETWORK_NOT_FOUND, NETWORK_REMOVED. */
  require(name: string): BusinessNetwork {
    const network = this.get(name)
    if (network !== null) return network
    if (this.#removed.has(name)) throw removed(name)
    throw new NetworkError('NETWORK_NOT_FOUND', `there is no network ${name}`)
  }

  /**
   * Removes a network: a tombstone in its database says so, which keeps everything that was recorded.
   * Errors: NETWORK_NOT_FOUND, NETWORK_REMOVED.
   */
  async remove(name: string): Promise<void> {
    const network = this.require(name)
    const item = tombstone(network.definition, this.#deps.version)
    await network.retire({ method: 'update_item', db: name, item })
    this.#networks.delete(name)
    this.#removed.add(name)
    await network.close()
  }

  /**
   * Makes `definition` a network of this node that is recorded with its first change.
   * Errors: NETWORK_EXISTS, NETWORK_NAME_TAKEN.
   */
  async ship(definition: NetworkDefinition): Promise<BusinessNetwork> {
    await this.#requireFree(definition.name)
    return this.#add(definition, deploymentChanges(definition, this.#deps.version))
  }

  /** Records `definition` as a network of this node. Errors: as for `ship`; NETWORK_INVALID. */
  async deploy(definition: NetworkDefinition): Promise<BusinessNetwork> {
    await this.#requireFree(definition.name)
    const scripts = await this.#loaded(definition)
    const deployment = deploymentChanges(definition, this.#deps.version)
    let network: BusinessNetwork | null = null
    try {
      network = this.#add(definition, deployment, scripts)
      await network.submitSystem('StartBusinessNetwork', NOTHING_ELSE, ADMIN)
      return network
    } catch (error) {
      if (network !== null) {
        this.#networks.delete(definition.name)
        this.#deps.ledger.disownDatabase(definition.name)
      }
      await scripts.close()
      throw error
    }
  }

  /**
   * Exchanges a deployed network for `next`, when everything stored fits it; `defaults` fill fields
   * that are new. One block holds the new archive and all updates.
   * Errors: NETWORK_NOT_FOUND, NETWORK_VERSION_SAME, NETWORK_INVALID, UPGRADE_INVALID.
   */
  async upgrade(
    next: NetworkDefinition,
    defaults: readonly FieldDefault[],
  ): Promise<BusinessNetwork> {
    const { name, sha256 } = next
    const network = this.require(name)
    if (network.definition.sha256 === sha256) {
      throw new NetworkError('NETWORK_VERSION_SAME', `${name} is deployed exactly so already`)
    }
    const { version } = this.#deps
    const scripts = await this.#loaded(next)
    const also = [{ method: 'update_item', db: name, item: networkItem(next, version) } as const]
    const parts = { definition: next, control: new AccessControl(next.rules), scripts }
    try {
      await network.replace((database) => upgradedResources(database, next, defaults), also, parts)
    } catch (error) {
      await scripts.close()
      throw error
    }
    return network
  }

  /**
   * Runs all transactions of the network of that name again, and compares what they write with what
   * the ledger records; `onProgress` is called before each transaction.
   * Errors: NETWORK_NOT_FOUND, NETWORK_BUSY, NETWORK_INVALID.
   */
  verify(
    name: string,
    onProgress: (progress: VerificationProgress) => void,
  ): Promise<NetworkVerification> {
    if (!this.#removed.has(name)) this.require(name)
    const database = new ResourceDatabase(name, this.#deps.ledger, NO_RESOURCES)
    return verifyNetwork(name, database.changesFrom(0), onProgress)
  }

  /** Ends what runs for the networks. */
  async close(): Promise<void> {
    await Promise.all([...this.#networks.values()].map((network) => network.close()))
  }

  /** The scripts of `definition`, loaded once to see that they can be. Errors: NETWORK_INVALID. */
  async #loaded(definition: NetworkDefinition): Promise<ScriptRunner> {
    const scripts = new ScriptRunner(definition, this.#deps.deadlineMs)
    if (definition.scripts.length > 0) await scripts.start()
    return scripts
  }

  async #requireFree(name: string): Promise<void> {
    const taken = await this.#deps.ledger.databases()
    this.#requireNew(name)
    if (this.#removed.has(name)) {
      const message = `a network ${name} was removed, and its name cannot be used again: choose another`
      throw new NetworkError('NETWORK_NAME_TAKEN', message)
    }
    if (taken.includes(name)) {
      const message = `the ledger has a database ${name} that belongs to no network`
      throw new NetworkError('NETWORK_NAME_TAKEN', message)
    }
  }

  #requireNew(name: string): void {
    if (!this.#networks.has(name)) return
    throw new NetworkError('NETWORK_EXISTS', `a network ${name} is deployed already`)
  }

  /** Errors: NETWORK_EXISTS, where another of that name came first. */
  #add(
    definition: NetworkDefinition,
    deployment: ReturnType<typeof deploymentChanges> | null,
    scripts = new ScriptRunner(definition, this.#deps.deadlineMs),
  ): BusinessNetwork {
    const { ledger, clock, log } = this.#deps
    const { name } = definition
    this.#requireNew(name)
    const database = new ResourceDatabase(name, ledger, registriesOf(definition.model))
    const events = new EventFeed(database)
    const recorder = new Recorder(database, clock, events, deployment)
    const network = new BusinessNetwork({
      definition,
      database,
      control: new AccessControl(definition.rules),
      recorder,
      events,
      scripts,
      log: (level, text) => log(name, level, text),
    })
    this.#networks.set(name, network)
    return network
  }
}

const NOTHING_ELSE = async () => ({ fields: {}, writes: [] })
