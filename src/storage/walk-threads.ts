import { Worker } from 'node:worker_threads'
import type { Walked } from './chain-walk.ts'
import { damageAsFinding } from './chain-walk.ts'
import type { Finding } from './comparison.ts'
import type { StoreReader } from './store.ts'

/** Blocks that a thread recomputes at a time. */
const BLOCKS_PER_RANGE = 32
/** Blocks read at a time by the thread that compares. */
const BLOCKS_PER_PAGE = 64
/** What a thread reads is garbage at once: with more room it would only be collected later. */
const YOUNG_MB = 12

/** Main thread to walker: the heights to recompute. */
export interface RangeToWalk {
  readonly from: number
  readonly to: number
}

/** Walker to main thread: up to which height the range holds, and what does not there, or null. */
export interface RangeWalked {
  readonly from: number
  readonly holds: number
  readonly finding: Finding | null
}

/** What a walker is started with. */
export interface WalkerStart {
  readonly folder: string
}

/**
 * A walk whose recomputing is done by threads, range by range, ahead of the one that reads on: `next`
 * gives blocks only when all up to them were found to hold.
 */
export class WalkThreads {
  readonly #store: StoreReader
  readonly #size: number
  readonly #workers: readonly Worker[]
  /** The ranges that are done and not yet passed, by their first height. */
  readonly #done = new Map<number, RangeWalked>()
  /** The height from which on no range was given out. */
  #given = 0
  /** The height up to which everything holds. */
  #holds = 0
  #finding: Finding | null = null
  #failure: Error | null = null
  /** The next block to be given. */
  #at = 0
  #wake: () => void = () => {}

  /** `size` is how many blocks the store has in the view of `store`, which the threads have read too. */
  constructor(
    store: StoreReader,
    { folder, count }: { readonly folder: string; readonly count: number },
    size: number,
  ) {
    this.#store = store
    this.#size = size
    const ranges = Math.ceil(size / BLOCKS_PER_RANGE)
    this.#workers = Array.from({ length: Math.min(count, ranges) }, () => this.#start({ folder }))
  }

  /** The next blocks; as `ChainWalk.next`. */
  async next(): Promise<Walked> {
    while (this.#holds === this.#at && this.#holds < this.#size && this.#finding === null) {
      if (this.#failure !== null) throw this.#failure
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    const limit = Math.min(BLOCKS_PER_PAGE, this.#holds - this.#at)
    if (limit <= 0) return this.#end()
    const page = await damageAsFinding(this.#at, async () => ({
      blocks: await this.#store.blocks(this.#store.serverId, this.#at, limit),
    }))
    if ('finding' in page) return { blocks: [], finding: page.finding }
    this.#at += page.blocks.length
    return { blocks: page.blocks, finding: null }
  }

  /** Ends the threads. */
  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()))
  }

  async #end(): Promise<Walked> {
    if (this.#finding !== null) return { blocks: [], finding: this.#finding }
    const beyond = await this.#store.treeLeaves(this.#store.serverId, this.#size, 1)
    const what = 'the log has leaves behind the last block'
    const finding = beyond.length === 0 ? null : { height: this.#size, index: null, what }
    return { blocks: [], finding }
  }

  #start(start: WalkerStart): Worker {
    // Sources run as they are, a build has only JavaScript.
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const worker = new Worker(new URL(`./walk-thread.${extension}`, import.meta.url), {
      name: 'chain-walker',
      workerData: start,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
    })
    worker.on('message', (walked: RangeWalked) => {
      this.#done.set(walked.from, walked)
      this.#pass()
      this.#give(worker)
    })
    worker.on('error', (error) => {
      this.#failure ??= error
      this.#wake()
    })
    this.#give(worker)
    return worker
  }

  #give(worker: Worker): void {
    if (this.#given >= this.#size || this.#finding !== null) return
    const from = this.#given
    this.#given = Math.min(from + BLOCKS_PER_RANGE, this.#size)
    const range: RangeToWalk = { from, to: this.#given }
    worker.postMessage(range)
  }

  /** Goes over the ranges that are done, in their order. */
  #pass(): void {
    for (let next = this.#done.get(this.#holds); next !== undefined && this.#finding === null; ) {
      this.#done.delete(next.from)
      this.#holds = next.holds
      this.#finding = next.finding
      next = this.#done.get(this.#holds)
    }
    this.#wake()
  }
}
