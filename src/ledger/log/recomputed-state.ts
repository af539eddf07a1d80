import {
  type Block,
  blockLeaf,
  EMPTY_FRONTIER,
  frontierRoot,
  grown,
  type SignedState,
} from '../../chain/index.ts'
import { StateFile, type StoreReader } from '../../storage/index.ts'
import { StateFollower } from './state-follower.ts'

/** Changes after which they are moved from memory to the temporary file. */
const CHANGES_MAX = 50_000
const BLOCKS_PER_READ = 64

/** Recomputes the state after the first `size` blocks of a chain, whose blocks are pushed from the first one on. */
export class StateRecomputation {
  readonly #size: number
  readonly #file = StateFile.open(null)
  readonly #follower: StateFollower
  #log = EMPTY_FRONTIER

  constructor(serverId: number, size: number) {
    this.#size = size
    this.#follower = new StateFollower(this.#file, serverId)
  }

  /** Adds the next block, which must have been verified. Ignores blocks after the first `size`. */
  push(block: Block): void {
    if (block.height >= this.#size) return
    this.#follower.push(block)
    this.#log = grown(this.#log, blockLeaf(block)).frontier
    if (this.#follower.changes >= CHANGES_MAX) this.#follower.commit(() => null)
  }

  /** Returns the state of the pushed blocks. */
  end(): SignedState {
    let root = new Uint8Array()
    this.#follower.commit((computed) => {
      root = Uint8Array.from(computed)
      return null
    })
    return { size: this.#follower.size, root, log: frontierRoot(this.#log) }
  }

  close(): void {
    this.#file.close()
  }
}

/** Returns the state of the first `size` blocks of `store`, or of all its blocks if there are fewer. */
export async function recomputeState(
  store: Pick<StoreReader, 'serverId' | 'blocks'>,
  size: number,
): Promise<SignedState> {
  const recomputation = new StateRecomputation(store.serverId, size)
  try {
    for (let height = 0; height < size; ) {
      const limit = Math.min(BLOCKS_PER_READ, size - height)
      const blocks = await store.blocks(store.serverId, height, limit)
      if (blocks.length === 0) break
      for (const block of blocks) recomputation.push(block)
      height += blocks.length
    }
    return recomputation.end()
  } finally {
    recomputation.close()
  }
}
