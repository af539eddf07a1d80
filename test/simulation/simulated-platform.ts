import type { WorkerOptions } from 'node:worker_threads'
import type { Thread } from '../../src/base/worker/worker.ts'
import { type Block, toHead } from '../../src/chain/index.ts'
import type { Platform } from '../../src/ledger/platform.ts'
import { openStore, type Store, StoreError, type StoreOptions } from '../../src/storage/index.ts'
import type { Network, Sent } from './network.ts'
import { simulatedThread } from './simulated-thread.ts'
import type { World } from './world.ts'

/** Maximum duration of one disk operation of a commit, milliseconds. */
const DISK_MS_MAX = 20

/** Callbacks for events of the platform, and faults of its disk. */
export interface Owner {
  /** Called when the signing thread has published a head. */
  signed(note: string): void
  /** Called when a block of the node's own chain is stored. */
  stored(height: number, id: string): void
  /** Returns the probability that a commit finds the disk full. */
  fullness(): number
  /** Whether the disk reports writes as stored before they are stored. */
  readonly isHasty: boolean
}

/** Platform of a simulated node from one start until the node stops or crashes. */
export class SimulatedPlatform implements Platform {
  readonly clock: Platform['clock']
  readonly schedule: Platform['schedule']
  readonly outbound: Platform['outbound']
  readonly #world: World
  readonly #owner: Owner
  readonly #timers = new Map<() => void, () => void>()
  #hasEnded = false
  /** Resolves when the node starts its `mirrors` thread, which is the last step of its start. */
  readonly begun: Promise<void>
  #begin: () => void = () => {}

  constructor(world: World, network: Network, host: string, skewMs: number, owner: Owner) {
    this.#world = world
    this.#owner = owner
    this.begun = new Promise((resolve) => {
      this.#begin = resolve
    })
    this.clock = { now: () => Math.floor(world.nowMs) + skewMs }
    this.schedule = { after: (ms, run) => this.#after(ms, run) }
    const call = (sent: Sent) => network.call(host, sent, () => this.#hasEnded)
    this.outbound = {
      get: (url, headers, policy) => call({ method: 'GET', url, headers, body: null, policy }),
      post: (url, headers, body, policy) => call({ method: 'POST', url, headers, body, policy }),
    }
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /**
   * Ends the platform. Further actions of the node have no visible effect. All its timers run immediately, so
   * that it can be closed.
   */
  end(): void {
    this.#hasEnded = true
    for (const [run, forget] of [...this.#timers]) {
      forget()
      this.#timers.delete(run)
      run()
    }
  }

  random(bytes: number): Buffer {
    return this.#world.bytes(bytes)
  }

  /** Opens a store whose commits take time, both before and after the commit becomes durable. */
  async openStore(options: StoreOptions): Promise<Store> {
    const store = await openStore({ ...options, durable: false })
    let isTransaction = false
    /**
     * The last block that the disk has reported as stored, possibly before it was stored. Null if no block was
     * reported, or if the disk is not hasty.
     */
    let hasty: Block | null = null
    const commit = async (work: () => Promise<void>) => {
      await this.#disk()
      if (!this.#hasEnded && this.#world.happens(this.#owner.fullness())) {
        throw new StoreError('STORE_FULL', 'the disk is full')
      }
      await work()
    }
    const slow: Pick<Store, 'append' | 'exclusive' | 'transaction'> = {
      exclusive: (work) => store.exclusive((head) => work(hasty === null ? head : toHead(hasty))),
      append: async (block, effects, answers) => {
        if (isTransaction) return store.append(block, effects, answers)
        const stored = commit(() => store.append(block, effects, answers)).then(() =>
          this.#owner.stored(block.height, block.id),
        )
        if (this.#owner.isHasty) {
          hasty = block
          // Nobody awaits this promise, because the commit was already reported as stored.
          stored.catch(() => {})
          return
        }
        await stored
        await this.#disk()
      },
      transaction: async (appends) => {
        await commit(async () => {
          isTransaction = true
          await store.transaction(appends).finally(() => {
            isTransaction = false
          })
        })
        await this.#disk()
      },
    }
    return new Proxy(store, {
      get(target, name) {
        if (name === 'append' || name === 'exclusive' || name === 'transaction') return slow[name]
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
  }

  startThread(_program: URL, options: WorkerOptions): Thread {
    if (options.name === 'mirrors') this.#begin()
    return simulatedThread(this.#world, options, this, (thread, message) => {
      if (this.#hasEnded || thread !== 'log-signer') return
      const { signed } = message as { signed?: { note: string } }
      if (signed !== undefined) this.#owner.signed(signed.note)
    })
  }

  #disk(): Promise<void> {
    if (this.#hasEnded) return Promise.resolve()
    return new Promise((resolve) => {
      this.#after(this.#world.between(0, DISK_MS_MAX), resolve)
    })
  }

  #after(ms: number, run: () => void): () => void {
    if (this.#hasEnded) return () => {}
    const once = () => {
      this.#timers.delete(once)
      run()
    }
    const forget = this.#world.after(ms, once)
    this.#timers.set(once, forget)
    return () => {
      forget()
      this.#timers.delete(once)
    }
  }
}
