import { canonicalJson } from '../../base/canonical-json.ts'
import { isJsonObject, type Json, parseJson } from '../../base/json.ts'
import {
  type Block,
  type ChainState,
  ChainVerifier,
  type Frontier,
  findErased,
  frontierAt,
  type Head,
  rawEntry,
  toHead,
} from '../../chain/index.ts'
import { isDamage, StoreError } from '../port/errors.ts'
import type { Creations, StoreReader } from '../port/store.ts'

/** The first difference; `height` and `index` are its position in the chain, if it has a position. */
export interface Finding {
  readonly height: number | null
  readonly index: number | null
  readonly what: string
  /** Set if the store could not be read, so that the correctness of the chain is unknown. */
  readonly isUnread?: true
}

export interface WalkResult {
  /** The correct blocks, in order. Empty at the end of the chain, and if the next block is wrong. */
  readonly blocks: readonly Block[]
  /** The defect of the next block, or null. */
  readonly finding: Finding | null
}

const BLOCKS_PER_PAGE = 64

/**
 * Reads the chain of a store and recomputes every commitment, root, id, link and node of its Merkle log, without the
 * databases, in constant memory. A walk may start at any block if another walk checks the earlier blocks.
 */
export class ChainWalk {
  readonly #store: StoreReader
  readonly #verifier: ChainVerifier

  private constructor(store: StoreReader, state: ChainState) {
    this.#store = store
    this.#verifier = new ChainVerifier(state)
  }

  /** Starts a walk at the block of height `from`. Errors: STORE_DAMAGED. */
  static async from(store: StoreReader, from: number): Promise<ChainWalk> {
    const { serverId } = store
    const [before] = from === 0 ? [] : await store.blocks(serverId, from - 1, 1)
    if (from > 0 && before?.height !== from - 1) {
      throw new StoreError('STORE_DAMAGED', `block ${from - 1} is missing`)
    }
    const frontier = await frontierAt(from, (nodes) => store.treeNodes(serverId, nodes))
    return new ChainWalk(store, { head: before === undefined ? null : toHead(before), frontier })
  }

  /** The last correct block, or null at the beginning. */
  get head(): Head | null {
    return this.#verifier.state.head
  }

  get frontier(): Frontier {
    return this.#verifier.state.frontier
  }

  /**
   * Reads and recomputes the next page of blocks, below height `to`.
   * Errors: the errors of the store, but damage is returned as a finding.
   */
  async next(to = Number.POSITIVE_INFINITY): Promise<WalkResult> {
    const from = this.#verifier.size
    const limit = Math.min(BLOCKS_PER_PAGE, to - from)
    if (limit <= 0) return { blocks: [], finding: null }
    const { serverId } = this.#store
    const page = await damageAsFinding(
      () => from,
      async () => ({
        // The two reads may see different states, because other processes may append in between. A block and its leaf
        // are committed together, so the leaves of all blocks in `blocks` exist.
        blocks: await this.#store.blocks(serverId, from, limit),
        leaves: await this.#store.treeLeaves(serverId, from, limit),
      }),
    )
    if ('finding' in page) return { blocks: [], finding: page.finding }
    for (const [at, block] of page.blocks.entries()) {
      const fault = this.#verifier.push(block, { nodes: page.leaves[at] ?? new Uint8Array() })
      if (fault === null) continue
      const { height, index, what } = fault
      return { blocks: page.blocks.slice(0, at), finding: { height, index, what } }
    }
    const isLonger = page.blocks.length === 0 && page.leaves.length > 0
    const isBeyond = isLonger && (await this.#store.headers(serverId, from, 1)).length === 0
    return { blocks: page.blocks, finding: isBeyond ? leavesBeyond(from) : null }
  }
}

/** Returns the finding for a chain of `size` blocks whose log is longer. */
export function leavesBeyond(size: number): Finding {
  return { height: size, index: null, what: 'the log has leaves after the last block' }
}

/**
 * A correct block that only creates items, all of which are still stored as created. Most blocks are plain.
 * `Comparison` checks the databases of these items.
 */
export interface PlainBlock {
  readonly height: number
  readonly id: string
  readonly count: number
  readonly creations: readonly Creations[]
}

/** Returns a correct block as a plain block, or null if it is not plain. Errors: STORE_DAMAGED. */
export async function plainBlock(block: Block, store: StoreReader): Promise<PlainBlock | null> {
  const { height, id, entries } = block
  if (findErased(block).size > 0) return null
  const ids: string[] = []
  const texts: string[] = []
  for (const text of entries) {
    const entry = rawEntry(text, block.serverId)
    const itemId = entry === null ? parseItemId(text) : entry.id
    // `plainCreations` compares ids as lines, so a block with a line feed in an id is not plain.
    if (itemId === null || itemId.includes('\n')) return null
    ids.push(itemId)
    texts.push(entry?.plainText ?? text)
  }
  const creations = await store.plainCreations(height, ids, texts.join('\n'))
  return creations === null ? null : { height, id, count: entries.length, creations }
}

/** Returns the id of the item in a canonical entry without author and reason, or null. */
function parseItemId(entry: string): string | null {
  try {
    const value: Json = parseJson(entry)
    if (!isJsonObject(value) || canonicalJson(value) !== entry) return null
    const { item, by, reason } = value
    if (by !== undefined || reason !== undefined) return null
    return isJsonObject(item) && typeof item.id === 'string' ? item.id : null
  } catch {
    return null
  }
}

/**
 * Like `plainBlock`, but returns null for damaged rows, because the comparison reports them in the order of the chain.
 */
export async function undamagedPlainBlock(
  block: Block,
  store: StoreReader,
): Promise<PlainBlock | null> {
  const result = await damageAsFinding(
    () => block.height,
    async () => ({
      plain: await plainBlock(block, store),
    }),
  )
  return 'plain' in result ? result.plain : null
}

/** Runs `work`; converts damage into a finding at the height that `unpackHeight` returns then. */
export async function damageAsFinding<Result extends object>(
  heightOf: () => number,
  work: () => Promise<Result>,
): Promise<Result | { readonly finding: Finding }> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof StoreError) || error.code !== 'STORE_DAMAGED') throw error
    const isUnread = isDamage(error.cause) ? { isUnread: true as const } : {}
    return { finding: { height: heightOf(), index: null, what: error.message, ...isUnread } }
  }
}

/** Runs the engine's check of its tables and indexes. If damage prevents the check, returns a finding at `height`. */
export async function findDamage(
  store: StoreReader,
  height: number,
): Promise<{ readonly finding: Finding | null }> {
  return damageAsFinding<{ readonly finding: Finding | null }>(
    () => height,
    async () => {
      const what = await store.damage()
      return { finding: what === null ? null : { height: null, index: null, what } }
    },
  )
}
