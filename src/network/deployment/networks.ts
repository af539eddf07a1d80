import { type Schedule, systemSchedule } from '../../base/clock.ts'
import { StoreError } from '../../ledger/core.ts'
import type { NetworkDefinition } from '../definition/definition.ts'
import { NetworkError } from '../errors.ts'
import { networkRemoved } from '../resources/instances.ts'
import { isTombstone, parseNetworkItem } from '../resources/network-item.ts'
import { ADMIN, type Caller } from '../resources/transaction.ts'
import type { NetworkVerification, VerificationProgress } from '../transactions/messages.ts'
import { toError } from '../transactions/messages.ts'
import { BusinessNetwork, type NetworkDeps } from './business-network.ts'
import { NetworkThread } from './network-thread.ts'
import {
  type FollowedBlocks,
  NetworkFollower,
  readNetworkItem,
  requireFreeName,
} from './recorded-networks.ts'
import type { FieldDefault } from './upgrade.ts'

/**
 * Maximum milliseconds to replay a processor or to load the scripts. Ten times the longest deadline that can be
 * configured, because a slow replay on a busy computer must not be reported as a difference.
 */
const REPLAY_MS = 600_000

export interface NetworksDeps extends Omit<NetworkDeps, 'catchUp'> {
  /** Default: the timers of the runtime. */
  readonly schedule?: Schedule
  /** Called for each database whose recorded network cannot be served. */
  readonly warn: (message: string) => void
}

export interface NetworkSummary {
  readonly name: string
  readonly version: string
  readonly description: string
  readonly sha256: string
}

/** The deployed networks of a node, as recorded in its ledger. */
export class Networks {
  readonly #deps: NetworksDeps & NetworkDeps
  readonly #following: NetworkFollower
  readonly #networks = new Map<string, BusinessNetwork>()
  /** Names of networks in `#networks` whose deployment is not recorded yet. */
  readonly #deploying = new Set<string>()
  /** Names of networks in `#deploying` that changed during their deployment, perhaps by another process. */
  readonly #unserved = new Set<string>()
  /** Names of networks that were removed. */
  readonly #removed = new Set<string>()
  /** Settles when the last call of `#serve` so far is done. */
  #serving: Promise<void> = Promise.resolve()
  /** Number of blocks whose network changes have been applied. */
  #known: number

  /** Called with the name of a network that this or another process has removed. */
  onRemoved: (name: string) => void = () => {}

  private constructor(deps: NetworksDeps) {
    const { ledger, schedule = systemSchedule } = deps
    this.#known = ledger.follower.isShared ? ledger.follower.size : 0
    this.#following = new NetworkFollower({
      ...{ ledger, schedule },
      follow: (blocks) => this.#follow(blocks),
    })
    this.#deps = {
      ...deps,
      catchUp: async () => {
        await this.#following.catchUp()
        return this.#known
      },
    }
    if (ledger.follower.isShared) ledger.follower.findFailure = () => this.#followFailure()
  }

  /** Serves the networks that the ledger records, and reserves their databases. */
  static async open(deps: NetworksDeps): Promise<Networks> {
    const networks = new Networks(deps)
    for (const name of await deps.ledger.read.databases()) await networks.#serve(name)
    return networks
  }

  /**
   * Applies the network changes that other processes have recorded so far, so that a request is answered by the
   * networks and rules of now. Errors: StoreError.
   */
  async catchUp(): Promise<void> {
    if (this.#deps.ledger.follower.isShared) await this.#following.catchUp()
  }

  #followFailure(): StoreError | null {
    const { failure } = this.#following
    if (failure === null || failure instanceof StoreError) return failure
    return new StoreError('STORE_FAILED', `networks cannot be followed: ${failure.message}`)
  }

  /** Serves the network recorded in database `name`, in its current version. */
  #serve(name: string): Promise<void> {
    const served = this.#serving.then(() => this.#serveNow(name))
    this.#serving = served.catch(() => {})
    return served
  }

  async #serveNow(name: string): Promise<void> {
    // `deploy` serves the name when it has ended.
    if (this.#deploying.has(name)) {
      this.#unserved.add(name)
      return
    }
    const { ledger, warn } = this.#deps
    const item = await readNetworkItem(ledger, name)
    this.#unserved.delete(name)
    if (item === null) return
    const network = this.#networks.get(name)
    if (isTombstone(item.text)) {
      await network?.removedElsewhere()
      this.#setRemoved(name)
      return
    }
    try {
      const definition = parseNetworkItem(item.text, name)
      if (network !== undefined) await network.follow(definition)
      else this.#networks.set(name, new BusinessNetwork(this.#deps, definition, true))
    } catch (error) {
      if (!(error instanceof NetworkError)) throw error
      warn(`network ${name} is not served: ${error.message}`)
    }
  }

  #setRemoved(name: string): void {
    this.#networks.delete(name)
    this.#removed.add(name)
    this.onRemoved(name)
  }

  /** Applies the network changes that other processes have recorded in these blocks. */
  async #follow({ from, to, names }: FollowedBlocks): Promise<void> {
    for (const name of new Set([...names, ...this.#unserved])) await this.#serve(name)
    this.#known = to + 1
    for (const { events } of this.#networks.values()) await events.follow(from, to)
  }

  /** Returns all deployed networks in the order of their deployment. */
  list(): NetworkSummary[] {
    const deployed = [...this.#networks.keys()].filter((name) => !this.#deploying.has(name))
    return deployed.map((name) => {
      const { version, description, sha256 } = this.require(name).definition
      return { name, version, description, sha256 }
    })
  }

  /** Returns the network `name`, or null if it is not deployed yet. */
  get(name: string): BusinessNetwork | null {
    return this.#deploying.has(name) ? null : (this.#networks.get(name) ?? null)
  }

  removed(): string[] {
    return [...this.#removed]
  }

  /** Returns the names of all networks that the ledger records, removed networks last. */
  recorded(): string[] {
    return [...this.#networks.keys(), ...this.#removed]
  }

  /** Returns the network `name`. Errors: NETWORK_NOT_FOUND, NETWORK_REMOVED. */
  require(name: string): BusinessNetwork {
    const network = this.get(name)
    if (network !== null) return network
    if (this.#removed.has(name)) throw networkRemoved(name)
    throw new NetworkError('NETWORK_NOT_FOUND', `there is no network ${name}`)
  }

  /**
   * Removes a network: records a tombstone in its database. All earlier records stay in the database.
   * Errors: NETWORK_NOT_FOUND, NETWORK_REMOVED.
   */
  async remove(name: string, caller: Caller = ADMIN): Promise<void> {
    // Only a shared network waits, so that requests of one process keep their order.
    if (this.#deps.ledger.follower.isShared) await this.catchUp()
    await this.require(name).remove(caller)
    this.#setRemoved(name)
  }

  /**
   * Serves `definition` at once. The network is recorded in the ledger together with its first change.
   * Errors: NETWORK_EXISTS, NETWORK_NAME_TAKEN.
   */
  async ship(definition: NetworkDefinition): Promise<BusinessNetwork> {
    await this.catchUp()
    await requireFreeName(definition.name, this.#deps.ledger)
    return this.#register(definition)
  }

  /** Serves `definition`. Must not await anything, because then two concurrent calls could register the same name. */
  #register(definition: NetworkDefinition): BusinessNetwork {
    const { name } = definition
    if (this.#networks.has(name)) {
      throw new NetworkError('NETWORK_EXISTS', `a network ${name} is deployed already`)
    }
    const network = new BusinessNetwork(this.#deps, definition, false)
    this.#networks.set(name, network)
    return network
  }

  /** Serves `definition` after recording it in the ledger. Errors: as for `ship`; NETWORK_INVALID. */
  async deploy(definition: NetworkDefinition, caller: Caller = ADMIN): Promise<BusinessNetwork> {
    const { name } = definition
    await this.catchUp()
    await requireFreeName(name, this.#deps.ledger)
    const network = this.#register(definition)
    this.#deploying.add(name)
    try {
      await network.change({ kind: 'start' }, caller)
      return network
    } catch (error) {
      this.#networks.delete(name)
      this.#deps.ledger.write.disownDatabase(name)
      await network.close()
      throw error
    } finally {
      this.#deploying.delete(name)
      // If this fails, `#follow` serves the name.
      if (this.#unserved.has(name)) await this.#serve(name).catch(() => {})
    }
  }

  /** Upgrades the network `name`. Errors: NETWORK_NOT_FOUND; as for `BusinessNetwork.upgrade`. */
  async upgrade(
    next: NetworkDefinition,
    defaults: readonly FieldDefault[],
    caller: Caller = ADMIN,
  ): Promise<BusinessNetwork> {
    if (this.#deps.ledger.follower.isShared) await this.catchUp()
    const network = this.require(next.name)
    await network.upgrade(next, defaults, caller)
    return network
  }

  /**
   * Runs all transactions of the network again and compares their writes with the ledger. `onProgress` is called
   * before each transaction. `restoredHeight`: see `verifyNetwork`. Errors: NETWORK_NOT_FOUND, NETWORK_BUSY, NETWORK_INVALID.
   */
  async verify(
    name: string,
    onProgress: (progress: VerificationProgress) => void,
    restoredHeight: number | null = null,
  ): Promise<NetworkVerification> {
    if (!this.#removed.has(name)) this.require(name)
    const { location } = this.#deps.ledger.reader
    const limits = { deadlineMs: REPLAY_MS, bootMs: REPLAY_MS }
    const thread = await NetworkThread.start({
      location,
      ...limits,
      task: { kind: 'verify', name, restoredHeight },
    })
    const verified = Promise.withResolvers<NetworkVerification>()
    thread.listen({
      message: (message) => {
        if ('progress' in message) onProgress(message.progress)
        if ('verified' in message) verified.resolve(message.verified)
        if ('failed' in message) verified.reject(toError(message.failed))
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

  /** Stops the threads of all networks. */
  async close(): Promise<void> {
    await this.#following.close()
    await Promise.all([...this.#networks.values()].map((network) => network.close()))
  }
}
