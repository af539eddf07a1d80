import type { StoreReader } from '../store.ts'
import { ChainWalk, damageAsFinding, damageOf, metAsPlain } from './chain-walk.ts'
import { Comparison, type Finding } from './comparison.ts'
import { type WalkedAhead, WalkThreads } from './walk-threads.ts'

/** What a verification looked at, and what it found. */
export interface Verification {
  readonly serverId: number
  readonly blocks: number
  readonly entries: number
  /** How many of the entries were erased; their commitments are intact. */
  readonly erased: number
  readonly databases: number
  readonly items: number
  /** The id of the last block, or null while the chain is empty. */
  readonly headId: string | null
  /** The first difference, or null when everything holds. */
  readonly finding: Finding | null
}

/** Called now and then while a verification runs; `ofBlocks` is the size of the chain. */
export type Progress = (done: { blocks: number; ofBlocks: number; entries: number }) => void

/** How a verification runs. */
export interface VerifyOptions {
  readonly progress?: Progress
  /** The data folder of the store: with it the chain is recomputed by as many threads. */
  readonly threads?: { readonly folder: string; readonly count: number }
}

/** A smaller chain is walked sooner than a thread has started. */
const BLOCKS_FOR_THREADS = 64

/**
 * Recomputes the whole chain of the store's node (every commitment, root, id, link and node of the
 * log) and compares the databases with what the chain makes of them. Stops at the first difference.
 *
 * With threads, they recompute ahead and meet the rows of plain blocks, while this one compares the
 * rest: the result is the same. Memory does not grow with the chain.
 * Errors: none for damage, which is a finding; errors of the engine other than STORE_DAMAGED rise.
 */
export async function verifyStore(
  store: StoreReader,
  { progress, threads }: VerifyOptions = {},
): Promise<Verification> {
  const comparison = new Comparison(store)
  const done = { blocks: 0, entries: 0 }
  let headId: string | null = null
  const result = async (finding: Finding | null): Promise<Verification> => ({
    serverId: store.serverId,
    ...done,
    erased: comparison.erased,
    databases: comparison.databases.size,
    items: comparison.items,
    headId,
    finding: finding?.isUnread === true ? await withPage(finding, store) : finding,
  })
  const last = await damageAsFinding(0, async () => ({ head: await store.head(store.serverId) }))
  if ('finding' in last) return result(last.finding)
  const ofBlocks = last.head === null ? 0 : last.head.height + 1
  const walk =
    threads !== undefined && ofBlocks >= BLOCKS_FOR_THREADS
      ? new WalkThreads(store, threads, ofBlocks)
      : await ChainWalk.from(store, 0)
  const compared = async (blocks: WalkedAhead['blocks']): Promise<Finding | null> => {
    for (const block of blocks) {
      // Threads have looked whether a block is plain, and give the others as they are.
      const isMet = 'creations' in block || walk instanceof WalkThreads
      const found = isMet ? block : ((await metAsPlain(block, store)) ?? block)
      const isPlain = 'creations' in found
      const { finding } = await damageAsFinding(done.blocks, async () => ({
        finding: await (isPlain ? comparison.plain(found) : comparison.block(found)),
      }))
      if (finding !== null) return finding
      headId = found.id
      done.blocks += 1
      done.entries += isPlain ? found.count : found.entries.length
    }
    return null
  }
  try {
    for (;;) {
      const walked = await damageAsFinding<WalkedAhead>(done.blocks, () => walk.next())
      if (!('blocks' in walked)) return await result(walked.finding)
      const { blocks, finding: wrong } = walked
      const differs = await damageAsFinding(done.blocks, async () => ({
        finding: await compared(blocks),
      }))
      if (differs.finding !== null || wrong !== null) return await result(differs.finding ?? wrong)
      if (blocks.length === 0) break
      progress?.({ blocks: done.blocks, ofBlocks, entries: done.entries })
    }
    const end = await damageAsFinding(done.blocks, async () => {
      const finding = await comparison.end()
      if (finding !== null) return { finding }
      return walk instanceof WalkThreads ? await walk.damage() : await damageOf(store, ofBlocks)
    })
    return await result(end.finding)
  } finally {
    if (walk instanceof WalkThreads) await walk.close()
  }
}

/** `finding` with the page that the engine names. */
async function withPage(finding: Finding, store: StoreReader): Promise<Finding> {
  const { finding: page } = await damageOf(store, 0)
  return page === null || page.isUnread === true
    ? finding
    : { ...finding, what: `${finding.what}; ${page.what}` }
}
