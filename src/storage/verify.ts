import { type Block, type Head, headOf, verifyBlock } from '../chain/index.ts'
import { Comparison, type Finding } from './comparison.ts'
import { StoreError } from './errors.ts'
import type { StoreReader } from './store.ts'

/** What a verification looked at, and what it found. */
export interface Verification {
  readonly serverId: number
  readonly blocks: number
  readonly entries: number
  readonly databases: number
  readonly items: number
  /** The id of the last block, or null while the chain is empty. */
  readonly headId: string | null
  /** The first difference, or null when everything holds. */
  readonly finding: Finding | null
}

/** Called now and then while a verification runs; `ofBlocks` is the size of the chain. */
export type Progress = (done: { blocks: number; ofBlocks: number; entries: number }) => void

const BLOCKS_PER_PAGE = 64

/**
 * Recomputes the whole chain of the store's node (every commitment, root, id and link) and compares
 * the databases with what the chain makes of them. Stops at the first difference.
 *
 * Errors: none for damage, which is a finding; errors of the engine other than STORE_DAMAGED rise.
 */
export async function verifyStore(store: StoreReader, progress?: Progress): Promise<Verification> {
  const comparison = new Comparison(store)
  let head: Head | null = null
  let entries = 0
  const result = (finding: Finding | null) => ({
    serverId: store.serverId,
    blocks: head === null ? 0 : head.height + 1,
    entries,
    databases: comparison.databases.size,
    items: comparison.items,
    headId: head?.id ?? null,
    finding,
  })
  try {
    const last = await store.head(store.serverId)
    const ofBlocks = last === null ? 0 : last.height + 1
    for (;;) {
      const page = await store.blocks(
        store.serverId,
        head === null ? 0 : head.height + 1,
        BLOCKS_PER_PAGE,
      )
      for (const block of page) {
        const finding =
          foreign(block, store) ?? verifyBlock(block, head) ?? (await comparison.block(block))
        if (finding !== null) return result(finding)
        head = headOf(block)
        entries += block.entries.length
      }
      if (page.length === 0) break
      progress?.({ blocks: head === null ? 0 : head.height + 1, ofBlocks, entries })
    }
    return result(await comparison.end())
  } catch (error) {
    if (!(error instanceof StoreError) || error.code !== 'STORE_DAMAGED') throw error
    return result({ height: head === null ? 0 : head.height + 1, index: null, what: error.message })
  }
}

function foreign(block: Block, store: StoreReader): Finding | null {
  if (block.serverId === store.serverId) return null
  return { height: block.height, index: null, what: `it belongs to server id ${block.serverId}` }
}
