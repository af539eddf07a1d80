import type { Block } from '../../chain/index.ts'
import type { StoreLocation } from '../location/location.ts'
import type { StoreReader } from '../port/store.ts'
import {
  ChainWalk,
  damageAsFinding,
  type Finding,
  findDamage,
  type PlainBlock,
  undamagedPlainBlock,
} from './chain-walk.ts'
import { Comparison } from './comparison.ts'
import { type RangeWalkResult, WalkThreads } from './walk-threads.ts'

export interface Verification {
  readonly serverId: number
  readonly blocks: number
  readonly entries: number
  /** Number of erased entries; their commitments are intact. */
  readonly erased: number
  readonly databases: number
  readonly items: number
  /** The id of the last block, or null for an empty chain. */
  readonly headId: string | null
  /** The first difference, or null if everything is correct. */
  readonly finding: Finding | null
}

export interface VerifyOptions {
  /** Called at intervals; `ofBlocks` is the length of the chain. */
  readonly progress?: (done: { blocks: number; ofBlocks: number; entries: number }) => void
  /** Verifies with `count` threads, which open the store at `location`. */
  readonly threads?: { readonly location: StoreLocation; readonly count: number }
}

/** Minimum blocks for verification with threads. A shorter chain is verified faster than a thread starts. */
const BLOCKS_FOR_THREADS = 64

/**
 * Recomputes the chain of the store's node (every commitment, root, id, link and node of the Merkle log)
 * and compares the databases with it. Stops at the first difference.
 *
 * Threads recompute blocks in advance and compare the rows of plain blocks, while the calling thread
 * compares all other blocks; the result is the same as without threads. Memory does not grow with the chain.
 * Errors: the errors of the store, but damage is returned as a finding.
 */
export async function verifyStore(
  store: StoreReader,
  { progress, threads }: VerifyOptions = {},
): Promise<Verification> {
  const comparison = new Comparison(store)
  const done = { blocks: 0, entries: 0 }
  let headId: string | null = null

  const compare = async (blocks: readonly (Block | PlainBlock)[]): Promise<Finding | null> => {
    for (const block of blocks) {
      const isPlain = 'creations' in block
      const finding = await (isPlain ? comparison.plainBlock(block) : comparison.block(block))
      if (finding !== null) return finding
      headId = block.id
      done.blocks += 1
      done.entries += isPlain ? block.count : block.entries.length
    }
    return null
  }
  const compareAll = async (walk: WalkThreads | SingleWalk, ofBlocks: number) => {
    for (;;) {
      const { blocks, finding: wrongBlock } = await walk.next()
      const difference = await compare(blocks)
      if (difference !== null) return { finding: await withDamage(difference, store) }
      if (wrongBlock !== null) return { finding: await withDamage(wrongBlock, store) }
      if (blocks.length === 0) break
      progress?.({ blocks: done.blocks, ofBlocks, entries: done.entries })
    }
    const finding = await comparison.end()
    return finding === null ? walk.damage() : { finding: await withDamage(finding, store) }
  }

  const { finding } = await damageAsFinding(
    () => done.blocks,
    async () => {
      const head = await store.head(store.serverId)
      const ofBlocks = head === null ? 0 : head.height + 1
      const walk =
        threads !== undefined && ofBlocks >= BLOCKS_FOR_THREADS
          ? new WalkThreads(store, threads, ofBlocks)
          : new SingleWalk(store, await ChainWalk.from(store, 0), ofBlocks)
      try {
        return await compareAll(walk, ofBlocks)
      } finally {
        await walk.close()
      }
    },
  )
  return {
    serverId: store.serverId,
    ...done,
    erased: comparison.erased,
    databases: comparison.databases.size,
    items: comparison.items,
    headId,
    finding: finding?.isUnread === true ? await withDamage(finding, store) : finding,
  }
}

/** Walks the chain without threads. */
class SingleWalk {
  readonly #store: StoreReader
  readonly #walk: ChainWalk
  readonly #size: number

  constructor(store: StoreReader, walk: ChainWalk, size: number) {
    this.#store = store
    this.#walk = walk
    this.#size = size
  }

  async next(): Promise<RangeWalkResult> {
    const walked = await this.#walk.next()
    const blocks: (Block | PlainBlock)[] = []
    for (const block of walked.blocks) {
      blocks.push((await undamagedPlainBlock(block, this.#store)) ?? block)
    }
    return { blocks, finding: walked.finding }
  }

  damage(): Promise<{ readonly finding: Finding | null }> {
    return findDamage(this.#store, this.#size)
  }

  async close(): Promise<void> {}
}

/** Adds the damage that the engine reports, because a damaged index makes rows appear to be missing. */
async function withDamage(finding: Finding, store: StoreReader): Promise<Finding> {
  const result = await damageAsFinding(
    () => 0,
    async () => ({ damage: await store.fileDamage() }),
  )
  if ('finding' in result || result.damage === null) return finding
  return { ...finding, what: `${finding.what}; ${result.damage}` }
}
