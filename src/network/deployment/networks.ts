import type { Clock } from '../../base/clock.ts'
import type { LedgerService } from '../../ledger/index.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import { networkItemId } from '../ownership.ts'
import { ResourceDatabase } from '../resources/database.ts'
import { removed } from '../resources/instances.ts'
import {
  definitionInItem,
  deploymentChanges,
  isTombstone,
  networkItem,
  tombstone,
} from '../resources/network-item.ts'
import { registriesOf } from '../resources/overlay.ts'
import { ADMIN } from '../resources/transaction.ts'
import type { NetworkVerification, VerificationProgress } from '../transactions/messages.ts'
import { errorOf } from '../transactions/messages.ts'
import { BusinessNetwork } from './business-network.ts'
import { EventFeed } from './event-feed.ts'
import { NetworkThread } from './network-thread.ts'
import { Pipeline } from './pipeline.ts'
import { type FieldDefault, upgradedResources } from './upgrade.ts'

/** How long the scripts of a network may take to load, milliseconds. */
const BOOT_MS = 2_000
/**
 * Deadline for replaying a processor, and for loading the scripts: ten times the longest deadline that a
 * node can have, because a busy machine is no finding.
 */
const REPLAY_MS = 600_000

export interface NetworksDeps {
  readonly ledger: LedgerService
  readonly clock: Clock
  /** The version of daicho, recorded with each network as `runtimeVersion`. */
  readonly version: string
  /** Called for each database that records a network which cannot be served. */
  readonly warn: (message: string) => void
  /** How long the processors of one transaction may take, milliseconds. */
  readonly deadlineMs: number
  /** Receives the console output of processors. */
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
        networks.#add(definitionInItem(item.text, name), true)
      } catch (error) {
        if (!(error instanceof NetworkError)) throw error
        // Without its rules nobody may change its data.
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
    return this.#add(definition, false).network
  }

  /** Records `definition` as a network of this node. Errors: as for `ship`; NETWORK_INVALID. */
  async deploy(definition: NetworkDefinition): Promise<BusinessNetwork> {
    await this.#requireFree(definition.name)
    const thread = await this.#startThread(definition, false)
    let network: BusinessNetwork | null = null
    try {
      const added = this.#add(definition, false)
      network = added.network
      await added.pipeline.exchange(thread)
      await network.change({ kind: 'start' }, ADMIN)
      return network
    } catch (error) {
      if (network !== null) {
        this.#networks.delete(definition.name)
        this.#deps.ledger.disownDatabase(definition.name)
        await network.close()
      }
      await thread.end()
      throw error
    }
  }

  /**
   * Replaces a deployed network by `next` if all stored resources fit it; `defaults` fill new fields.
   * One block holds the new archive and all updates.
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
    const thread = await this.#startThread(next, true)
    const item = networkItem(next, this.#deps.version)
    try {
      const decide = (database: ResourceDatabase) => upgradedResources(database, next, defaults)
      await network.replace(next, thread, decide, { method: 'update_item', db: name, item })
    } catch (error) {
      await thread.end()
      throw error
    }
    return network
  }

  /**
   * Runs all transactions of the network again and compares their writes with the ledger; `onProgress`
   * is called before each transaction.
   * Errors: NETWORK_NOT_FOUND, NETWORK_BUSY, NETWORK_INVALID.
   */
  async verify(
    name: string,
    onProgress: (progress: VerificationProgress) => void,
  ): Promise<NetworkVerification> {
    if (!this.#removed.has(name)) this.require(name)
    const { folder } = this.#deps.ledger.reader
    const limits = { deadlineMs: REPLAY_MS, bootMs: REPLAY_MS }
    const thread = await NetworkThread.start({ folder, ...limits, task: { kind: 'verify', name } })
    const verified = Promise.withResolvers<NetworkVerification>()
    thread.listen({
      message: (message) => {
        if ('progress' in message) onProgress(message.progress)
        if ('verified' in message) verified.resolve(message.verified)
        if ('failed' in message) verified.reject(errorOf(message.failed))
      },
      ended: () => {
        const text = 'the thread of the verification has ended; try again'
        verified.reject(new NetworkError('NETWORK_BUSY', text))
      },
    })
    try {
      return await verified.promise
    } finally {
      await thread.end()
    }
  }

  /** Ends the threads of all networks. */
  async close(): Promise<void> {
    await Promise.all([...this.#networks.values()].map((network) => network.close()))
  }

  /** Errors: NETWORK_INVALID when the scripts cannot be loaded. */
  #startThread(definition: NetworkDefinition, isRecorded: boolean): Promise<NetworkThread> {
    const { ledger, deadlineMs, version } = this.#deps
    const deployment = isRecorded ? null : deploymentChanges(definition, version)
    const task = { kind: 'serve', archive: definition.archive, deployment } as const
    return NetworkThread.start({ folder: ledger.reader.folder, deadlineMs, bootMs: BOOT_MS, task })
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
  #add(definition: NetworkDefinition, isRecorded: boolean) {
    const { ledger, clock, log, version } = this.#deps
    const { name } = definition
    this.#requireNew(name)
    const database = new ResourceDatabase(name, ledger.reader, registriesOf(definition.model))
    const events = new EventFeed(database)
    const pipeline = new Pipeline(
      {
        database: ledger.ownDatabase(name),
        clock,
        startThread: (recorded) => this.#startThread(network.definition, recorded),
        publish: (height, emitted) => events.publish(height, emitted),
        log: (level, text) => log(name, level, text),
      },
      isRecorded,
    )
    const deployment = isRecorded ? [] : deploymentChanges(definition, version)
    const network = new BusinessNetwork({ definition, database, pipeline, events, deployment })
    this.#networks.set(name, network)
    return { network, pipeline }
  }
}
