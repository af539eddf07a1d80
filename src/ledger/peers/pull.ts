import type { Json } from '../../base/json.ts'
import {
  type CutBlock,
  equalBytes,
  type Frontier,
  grown,
  HASH_BYTES,
  nodeSha256,
  rootOf,
  TILE_WIDTH,
} from '../../chain/index.ts'
import { PeerError } from './errors.ts'
import type { Mirror } from './mirror.ts'
import type { SignedHead } from './signed-head.ts'

/** A page of blocks, cut out of it where that is simple, and how long it was. */
export interface BlockPage {
  readonly values: readonly (Json | CutBlock)[]
  readonly bytes: number
}

/** Where a chain is fetched. Everything it says is verified. */
export interface ChainSource {
  /** The newest signed head, as a note. */
  checkpoint(): Promise<string>
  /** At most `limit` blocks from height `from` on; fewer where they are too long together. */
  blocks(from: number, limit: number): Promise<BlockPage>
  consistency(from: number, to: number): Promise<readonly Uint8Array[]>
  /** A tile of leaf hashes, `width` of them. */
  leaves(index: number, width: number): Promise<Uint8Array>
}

/** Called after each page; `entries` counts those of this round. */
export type PullProgress = (done: { blocks: number; ofBlocks: number; entries: number }) => void

const BLOCKS_AT_FIRST = 8
const BLOCKS_MAX = 1_024
/** Pages are asked for in such numbers of blocks that they have about this many bytes. */
const PAGE_BYTES = 2 * 1024 * 1024
/** A longer log is not looked through for where it parts; what it sends is refused all the same. */
const FORK_BLOCKS_MAX = 2 ** 24

/** How many blocks a page is to have, judged by the last one; whoever pulls again and again keeps it. */
export class PageLimit {
  blocks = BLOCKS_AT_FIRST

  /** A page arrived. */
  judge({ values, bytes }: BlockPage): void {
    const fitting = Math.floor((PAGE_BYTES * values.length) / bytes)
    this.blocks = Math.max(1, Math.min(BLOCKS_MAX, fitting))
  }
}

/**
 * Takes from `source` what is missing in `mirror`, up to the head that it has signed now, page by page.
 * Errors: PeerError, ProofError, OutboundError, StoreError; what was stored before stays.
 */
export async function pull(
  mirror: Mirror,
  source: ChainSource,
  progress: PullProgress = () => {},
  limit = new PageLimit(),
): Promise<void> {
  const prove = (from: number, to: number) => source.consistency(from, to)
  const head = await mirror.opened(await source.checkpoint())
  try {
    const pageFrom = (from: number) =>
      ahead(async () => source.blocks(from, Math.min(limit.blocks, head.size - from)))
    // The first page is under way while the head is proven; without the proof it is not looked at.
    let next = mirror.size < head.size ? pageFrom(mirror.size) : null
    await mirror.follow(head, prove)
    let entries = 0
    while (next !== null) {
      const page: BlockPage = await next
      limit.judge(page)
      const end = mirror.size + page.values.length
      // While this page is recomputed and stored, the source makes the one after it.
      next = end < head.size ? pageFrom(end) : null
      entries += await mirror.take(page.values, head, prove)
      progress({ blocks: mirror.size, ofBlocks: head.size, entries })
    }
  } catch (error) {
    const isDoubtful = error instanceof PeerError && error.code !== 'MIRROR_FROZEN'
    if (!isDoubtful || !(await isFork(mirror, source, head))) throw error
    throw mirror.contradicted(head, 'the logs of the two do not begin with the same blocks')
  }
}

/** What `work` gives, which goes on before it is needed: that it fails is told when it is. */
function ahead<Value>(work: () => Promise<Value>): Promise<Value> {
  const going = work()
  going.catch(() => {})
  return going
}

/**
 * Whether the log that `head` signs is one that does not begin as what the mirror knows: all its leaves,
 * which give its root, give another one at the size of the mirror or of the newest head that was seen. A
 * source that only lies cannot show that. Errors: none; what is not shown is not so.
 */
async function isFork(mirror: Mirror, source: ChainSource, head: SignedHead): Promise<boolean> {
  const known = (await mirror.known()).filter(({ size }) => size > 0 && size <= head.size)
  if (known.length === 0 || head.size > FORK_BLOCKS_MAX) return false
  let frontier: Frontier = { size: 0, peaks: [] }
  let differs = false
  try {
    while (frontier.size < head.size) {
      const width = Math.min(TILE_WIDTH, head.size - frontier.size)
      const tile = await source.leaves(frontier.size / TILE_WIDTH, width)
      for (let at = 0; at < width; at += 1) {
        const leaf = tile.slice(at * HASH_BYTES, (at + 1) * HASH_BYTES)
        frontier = grown(nodeSha256, frontier, leaf).frontier
        const { size } = frontier
        differs ||= known.some((one) => {
          return one.size === size && !equalBytes(rootOf(nodeSha256, frontier), one.root)
        })
      }
    }
  } catch {
    return false
  }
  return differs && equalBytes(rootOf(nodeSha256, frontier), head.root)
}
