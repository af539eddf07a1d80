import { setImmediate } from 'node:timers/promises'
import type { StoreReader } from '../storage/index.ts'

/** Blocks whose entries are counted in one go. */
const BLOCKS_AT_ONCE = 2_000

/** How long a chain is. */
export interface ChainSize {
  readonly blocks: number
  readonly entries: number
}

/** Counts the entries of the own chain when somebody asks, each block once. */
export class ChainCount {
  readonly #store: StoreReader
  #blocks = 0
  #entries = 0
  #counting: Promise<ChainSize> | null = null

  constructor(store: StoreReader) {
    this.#store = store
  }

  /** The size of the chain. The first count of a long one takes seconds, and holds nobody up. */
  size(): Promise<ChainSize> {
    this.#counting ??= this.#count().finally(() => {
      this.#counting = null
    })
    return this.#counting
  }

  async #count(): Promise<ChainSize> {
    const { serverId } = this.#store
    const head = await this.#store.head(serverId)
    const size = head === null ? 0 : head.height + 1
    while (this.#blocks < size) {
      const to = Math.min(this.#blocks + BLOCKS_AT_ONCE, size)
      this.#entries += await this.#store.countEntries(serverId, this.#blocks, to)
      this.#blocks = to
      await setImmediate()
    }
    return { blocks: this.#blocks, entries: this.#entries }
  }
}
