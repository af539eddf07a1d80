import { isForkByLeaves } from './evidence.ts'
import type { Mirror } from './mirror.ts'
import type { BlockPage, ChainSource } from './peer-client.ts'

const BLOCKS_AT_FIRST = 8
const BLOCKS_MAX = 1_024
/** Desired bytes of a page of blocks. */
const PAGE_BYTES = 2 * 1024 * 1024

/** Called after each page; `entries` counts those of this round. */
export type PullProgress = (done: { blocks: number; ofBlocks: number; entries: number }) => void

/** Number of blocks to request per page, adapted to their size. Shared by all rounds with a peer. */
export class PageLimit {
  blocks = BLOCKS_AT_FIRST

  /** Adapts the limit to a page that arrived. */
  adapt({ values, bytes }: BlockPage): void {
    const fitting = Math.floor((PAGE_BYTES * values.length) / bytes)
    this.blocks = Math.max(1, Math.min(BLOCKS_MAX, fitting))
  }
}

/**
 * Copies the missing blocks from `source` to `mirror`, up to the newest signed head, page by page.
 * Errors: PeerError, ProofError, OutboundError, StoreError; earlier pages stay stored.
 */
export async function pull(
  mirror: Mirror,
  source: ChainSource,
  progress: PullProgress = () => {},
  limit = new PageLimit(),
): Promise<void> {
  const prove = (from: number, to: number) => source.consistency(from, to)
  const head = await mirror.opened(await source.checkpoint())
  const pageAt = (from: number) =>
    prefetch(async () => source.blocks(from, Math.min(limit.blocks, head.size - from)))
  await mirror.detectFork(
    head,
    (known) => isForkByLeaves(known, head, source),
    async () => {
      // Requested before the head is proven, but not used without the proof.
      let next = mirror.size < head.size ? pageAt(mirror.size) : null
      await mirror.follow(head, prove)
      let entries = 0
      while (next !== null) {
        const page: BlockPage = await next
        limit.adapt(page)
        const end = mirror.size + page.values.length
        // The source prepares the next page while this one is verified and stored.
        next = end < head.size ? pageAt(end) : null
        entries += await mirror.take(page.values, head, prove)
        progress({ blocks: mirror.size, ofBlocks: head.size, entries })
      }
    },
  )
}

/** Starts `work` before its result is needed. An error is reported when the result is awaited. */
function prefetch<Value>(work: () => Promise<Value>): Promise<Value> {
  const result = work()
  result.catch(() => {})
  return result
}
