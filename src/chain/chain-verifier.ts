import {
  type Block,
  type BlockFault,
  findErased,
  type Head,
  headerText,
  toHead,
  toHeader,
  verifyBlock,
} from './block.ts'
import { equalBytes, joined } from './hashes.ts'
import { EMPTY_FRONTIER, type Frontier, grown, leafHash } from './merkle-tree.ts'

/** The verified blocks of a chain: their Merkle log, and the last block, or null if there is none. */
export interface ChainState {
  readonly head: Head | null
  readonly frontier: Frontier
}

const EMPTY_CHAIN: ChainState = { head: null, frontier: EMPTY_FRONTIER }

/** Returns the leaf of a block in the log: the leaf hash of its header. */
export function blockLeaf(block: Block): Uint8Array {
  return leafHash(new TextEncoder().encode(headerText(toHeader(block))))
}

/** Verifies the blocks of a chain one after the other, and grows the Merkle log of the chain. */
export class ChainVerifier {
  #state: ChainState

  /** `state`: the blocks that were verified before. */
  constructor(state: ChainState = EMPTY_CHAIN) {
    this.#state = state
  }

  get state(): ChainState {
    return this.#state
  }

  /** Number of verified blocks. */
  get size(): number {
    return this.#state.frontier.size
  }

  /**
   * Adds the next block, and returns null. Returns the first fault of a wrong block, which is not added. Does not check
   * whether the entries in `erased` may be erased. `nodes`: stored hashes of the nodes that the block completes in the
   * log, which must match.
   */
  push(
    block: Block,
    {
      erased = findErased(block),
      nodes,
    }: { erased?: ReadonlySet<number>; nodes?: Uint8Array } = {},
  ): BlockFault | null {
    const fault = verifyBlock(block, this.#state.head, erased)
    if (fault !== null) return fault
    const next = grown(this.#state.frontier, blockLeaf(block))
    if (nodes !== undefined && !equalBytes(joined(...next.nodes), nodes)) {
      const what = 'the nodes of the log do not match its headers'
      return { code: 'log', height: block.height, index: null, what }
    }
    this.#state = { head: toHead(block), frontier: next.frontier }
    return null
  }
}
