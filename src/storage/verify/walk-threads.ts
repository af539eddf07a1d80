import { startWorker, type WorkerThread } from '../../base/worker/worker.ts'
import type { Block } from '../../chain/index.ts'
import type { StoreLocation } from '../location/location.ts'
import type { StoreReader } from '../port/store.ts'
import { type Finding, leavesBeyond, type PlainBlock } from './chain-walk.ts'

/** Number of blocks that a thread recomputes per task. */
const BLOCKS_PER_RANGE = 32
/** Maximum blocks that threads recompute before the caller compares them. Limits the memory of the results. */
const BLOCKS_AHEAD_MAX = 64 * BLOCKS_PER_RANGE
const BLOCKS_PER_PAGE = 64
/**
 * Size of V8's young generation in a thread. The data that a thread reads becomes garbage at once, so a larger young
 * generation would only delay collection.
 */
const YOUNG_GENERATION_MB = 12
/**
 * Size of V8's old generation in a thread: enough for the longest block, of 128 Mi characters. V8 lets garbage grow in
 * proportion to this limit. For 1,000,000 items, a thread took 66 MB with V8's default and 40 MB with this value.
 */
const OLD_GENERATION_MB = 1_024

/** A task to recompute the blocks from height `from` (inclusive) to `to` (exclusive). */
export interface RangeTask {
  readonly from: number
  readonly to: number
}

/**
 * Result of a range. `plain` has an element per correct block, which is null if the block is not plain. `finding` is
 * the defect of the block after the correct blocks, or null.
 */
export interface RangeResult {
  readonly from: number
  readonly plain: readonly (PlainBlock | null)[]
  readonly finding: Finding | null
}

/** A task to run the engine's check of its file; the chain has `ofBlocks` blocks. */
export interface FileTask {
  readonly ofBlocks: number
}

export interface FileResult {
  readonly finding: Finding | null
}

/** Like `WalkResult`, but a plain block is not read again and has no entries. */
export interface RangeWalkResult {
  readonly blocks: readonly (Block | PlainBlock)[]
  readonly finding: Finding | null
}

type Walker = WorkerThread<RangeTask | FileTask, RangeResult | FileResult>

/** A walk whose ranges are recomputed by threads, before the caller of `next` reaches them. */
export class WalkThreads {
  readonly #store: StoreReader
  readonly #size: number
  readonly #workers: readonly Walker[]
  readonly #idle: Walker[] = []
  /** Results that arrived before an earlier range was finished, by their first height. */
  readonly #results = new Map<number, RangeResult>()
  /** First height that is not assigned to a task yet. */
  #assigned = 0
  /** The correct blocks from height `#next` on; null for a block that is not plain. */
  readonly #plain: (PlainBlock | null)[] = []
  /** Height of the next block to return. */
  #next = 0
  #finding: Finding | null = null
  #failure: Error | null = null
  #fileResult: FileResult | null = null
  #wake: () => void = () => {}

  /** `size` is the length of the chain in the view of `store`. */
  constructor(
    store: StoreReader,
    { location, count }: { readonly location: StoreLocation; readonly count: number },
    size: number,
  ) {
    this.#store = store
    this.#size = size
    const ranges = Math.ceil(size / BLOCKS_PER_RANGE)
    this.#workers = Array.from({ length: Math.min(count, ranges) }, () => this.#start(location))
    // The check of the file starts first, because it takes longest.
    this.#idle.pop()?.post({ ofBlocks: size })
    this.#assign()
  }

  /** See `ChainWalk.next`. Errors: STORE_DAMAGED. */
  async next(): Promise<RangeWalkResult> {
    await this.#until(
      () => this.#plain.length > 0 || this.#next === this.#size || this.#finding !== null,
    )
    if (this.#plain.length === 0) return { blocks: [], finding: await this.#end() }
    const blocks = await this.#read()
    this.#next += blocks.length
    this.#plain.splice(0, blocks.length)
    this.#assign()
    return { blocks, finding: blocks.length === 0 ? await this.#end() : null }
  }

  /** Like `findDamage`, but a worker thread runs the check from the start. */
  async damage(): Promise<FileResult> {
    await this.#until(() => this.#fileResult !== null)
    return this.#fileResult ?? { finding: null }
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()))
  }

  async #until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      if (this.#failure !== null) throw this.#failure
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  /** Reads the next plain blocks, or a page of the next blocks that are not plain. */
  async #read(): Promise<readonly (Block | PlainBlock)[]> {
    const page = this.#plain.slice(0, BLOCKS_PER_PAGE)
    const plain: PlainBlock[] = []
    for (const block of page) {
      if (block === null) break
      plain.push(block)
    }
    if (plain.length > 0) return plain
    const nextPlain = page.findIndex((block) => block !== null)
    const limit = nextPlain === -1 ? page.length : nextPlain
    return this.#store.blocks(this.#store.serverId, this.#next, limit)
  }

  async #end(): Promise<Finding | null> {
    if (this.#finding !== null) return this.#finding
    const beyond = await this.#store.treeLeaves(this.#store.serverId, this.#size, 1)
    return beyond.length === 0 ? null : leavesBeyond(this.#size)
  }

  #start(location: StoreLocation): Walker {
    const worker: Walker = startWorker({
      name: 'chain-walker',
      program: [import.meta.url, './walk-thread'],
      workerData: location,
      resourceLimits: {
        maxYoungGenerationSizeMb: YOUNG_GENERATION_MB,
        maxOldGenerationSizeMb: OLD_GENERATION_MB,
      },
      keepsAlive: true,
    })
    worker.listen({
      message: (result) => {
        this.#idle.push(worker)
        if ('plain' in result) this.#results.set(result.from, result)
        else this.#fileResult = result
        this.#takeResults()
        this.#assign()
        this.#wake()
      },
      failed: (error) => {
        this.#failure ??= error
        this.#wake()
      },
    })
    this.#idle.push(worker)
    return worker
  }

  /** Gives tasks to idle workers. */
  #assign(): void {
    while (this.#assigned < Math.min(this.#size, this.#next + BLOCKS_AHEAD_MAX)) {
      if (this.#finding !== null) return
      const worker = this.#idle.pop()
      if (worker === undefined) return
      const from = this.#assigned
      this.#assigned = Math.min(from + BLOCKS_PER_RANGE, this.#size)
      worker.post({ from, to: this.#assigned })
    }
  }

  #takeResults(): void {
    while (this.#finding === null) {
      const result = this.#results.get(this.#next + this.#plain.length)
      if (result === undefined) return
      this.#results.delete(result.from)
      this.#plain.push(...result.plain)
      this.#finding = result.finding
    }
  }
}
