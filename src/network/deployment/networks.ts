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
import { Recorder } from '../resources/recorder.ts'
import { ScriptRunner } from '../runtime/script-runner.ts'
import { definitionInItem, deploymentChanges, networkItem } from './network-item.ts'
import { type FieldDefault, upgradedResources } from './upgrade.ts'
import { type NetworkVerification, verifyNetwork } from './verification.ts'

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
    const network = this.get(name)
    if (network === null) {
      throw new NetworkError('NETWORK_NOT_FOUND', `there is no network ${name} to upgrade`)
    }
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
   * the ledger records; `onBlock` is told of each block that is as it should be.
   * Errors: NETWORK_NOT_FOUND.
   */
  verify(name: string, onBlock: (height: number) => void): Promise<NetworkVerification> {
    const network = this.get(name)
    if (network === null) {
      throw new NetworkError('NETWORK_NOT_FOUND', `there is no network ${name}`)
    }
    return verifyNetwork(name, network.recordedBlocks(), onBlock)
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
    const database = new ResourceDatabase(name, ledger)
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
