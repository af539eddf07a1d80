import { setImmediate } from 'node:timers/promises'
import type { StoreReader } from '../../storage/index.ts'

const BLOCKS_PER_COUNT = 2_000

export interface ChainSize {
  readonly blocks: number
  readonly entries: number
}

/** Counts the blocks and entries of the node's own chain. Each call reads only the blocks since the previous call. */
export class ChainCount {
  readonly #store: StoreReader
  #counted: ChainSize = { blocks: 0, entries: 0 }
  #counting: Promise<ChainSize> | null = null

  constructor(store: StoreReader) {
    this.#store = store
  }

  /** Returns the size of the chain. The first call can take seconds, but does not block the event loop. */
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
    while (this.#counted.blocks < size) {
      const { blocks, entries } = this.#counted
      const to = Math.min(blocks + BLOCKS_PER_COUNT, size)
      const more = await this.#store.countEntries(serverId, blocks, to)
      this.#counted = { blocks: to, entries: entries + more }
      await setImmediate()
    }
    return this.#counted
  }
}
