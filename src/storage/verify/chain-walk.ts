import {
  type Block,
  equalBytes,
  erasedIn,
  type Frontier,
  frontierAt,
  grown,
  type Head,
  headerOf,
  headerText,
  headOf,
  leafHash,
  verifyBlock,
} from '../../chain/index.ts'
import { isDamage, StoreError } from '../errors.ts'
import type { StoreReader } from '../store.ts'
import type { Finding } from './comparison.ts'
import { type PlainBlock, plainBlock } from './plain-block.ts'

/** Blocks read at a time. */
const BLOCKS_PER_PAGE = 64

/** A step of a walk. */
export interface Walked {
  /** The blocks that hold, in order; empty at the end, and where the first of them does not. */
  readonly blocks: readonly Block[]
  /** What does not hold in the block behind them, or null. */
  readonly finding: Finding | null
}

/**
 * Goes through the chain of a store and recomputes all of it (every commitment, root, id, link and
 * node of the log) without looking at the databases, in constant memory. A walk may begin anywhere:
 * what it takes from the blocks before is for the walk that ends there to recompute.
 */
export class ChainWalk {
  readonly #store: StoreReader
  #head: Head | null
  #frontier: Frontier

  private constructor(store: StoreReader, head: Head | null, frontier: Frontier) {
    this.#store = store
    this.#head = head
    this.#frontier = frontier
  }

  /** A walk that begins with the block of height `from`. Errors: STORE_DAMAGED. */
  static async from(store: StoreReader, from: number): Promise<ChainWalk> {
    const { serverId } = store
    const [before] = from === 0 ? [] : await store.blocks(serverId, from - 1, 1)
    if (from > 0 && before?.height !== from - 1) {
      throw new StoreError('STORE_DAMAGED', `block ${from - 1} is missing`)
    }
    const frontier = await frontierAt(from, (nodes) => store.treeNodes(serverId, nodes))
    return new ChainWalk(store, before === undefined ? null : headOf(before), frontier)
  }

  /** The last block that holds, or null at the beginning. */
  get head(): Head | null {
    return this.#head
  }

  /** The log over all blocks up to the head. */
  get frontier(): Frontier {
    return this.#frontier
  }

  /**
   * Reads and recomputes the next page of blocks, none of height `to` or above.
   * Errors: of the engine; what cannot be read as what it must be is a finding.
   */
  async next(to = Number.POSITIVE_INFINITY): Promise<Walked> {
    const from = this.#frontier.size
    const limit = Math.min(BLOCKS_PER_PAGE, to - from)
    if (limit <= 0) return { blocks: [], finding: null }
    const { serverId } = this.#store
    const page = await damageAsFinding(from, async () => ({
      blocks: await this.#store.blocks(serverId, from, limit),
      leaves: await this.#store.treeLeaves(serverId, from, limit),
    }))
    if ('finding' in page) return { blocks: [], finding: page.finding }
    for (const [at, block] of page.blocks.entries()) {
      const finding = this.#finding(block, page.leaves[at])
      if (finding !== null) return { blocks: page.blocks.slice(0, at), finding }
    }
    const beyond = page.blocks.length === 0 && page.leaves.length > 0
    const what = 'the log has leaves behind the last block'
    return { blocks: page.blocks, finding: beyond ? { height: from, index: null, what } : null }
  }

  #finding(block: Block, leaf: Uint8Array | undefined): Finding | null {
    const { height } = block
    if (block.serverId !== this.#store.serverId) {
      return { height, index: null, what: `it belongs to server id ${block.serverId}` }
    }
    const fault = verifyBlock(block, this.#head, erasedIn(block))
    if (fault !== null) return { height, index: fault.index, what: fault.what }
    const text = Buffer.from(headerText(headerOf(block)))
    const { frontier, nodes } = grown(this.#frontier, leafHash(text))
    if (leaf === undefined || !equalBytes(Buffer.concat(nodes), leaf)) {
      return { height, index: null, what: 'the nodes of the log are not those of its headers' }
    }
    this.#frontier = frontier
    this.#head = headOf(block)
    return null
  }
}

/** As `plainBlock`; rows that cannot be read are for the comparison to find, in its order. */
export async function metAsPlain(block: Block, store: StoreReader): Promise<PlainBlock | null> {
  const met = await damageAsFinding(block.height, async () => ({
    plain: await plainBlock(block, store),
  }))
  return 'plain' in met ? met.plain : null
}

/** Runs `work`; damage that it meets is a finding at `height`. */
export async function damageAsFinding<Result extends object>(
  height: number,
  work: () => Promise<Result>,
): Promise<Result | { readonly finding: Finding }> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof StoreError) || error.code !== 'STORE_DAMAGED') throw error
    const isUnread = isDamage(error.cause) ? { isUnread: true as const } : {}
    return { finding: { height, index: null, what: error.message, ...isUnread } }
  }
}

/** What the engine says of its file as a whole; where it cannot even be asked, at `height`. */
export async function damageOf(
  store: StoreReader,
  height: number,
): Promise<{ readonly finding: Finding | null }> {
  return damageAsFinding<{ readonly finding: Finding | null }>(height, async () => {
    const what = await store.damage()
    return { finding: what === null ? null : { height: null, index: null, what } }
  })
}
