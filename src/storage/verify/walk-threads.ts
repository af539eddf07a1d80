import { Worker } from 'node:worker_threads'
import type { Block } from '../../chain/index.ts'
import type { StoreReader } from '../store.ts'
import { damageAsFinding } from './chain-walk.ts'
import type { Finding } from './comparison.ts'
import type { PlainBlock } from './plain-block.ts'

/** Blocks that a thread recomputes at a time. */
const BLOCKS_PER_RANGE = 32
/** Blocks that are recomputed ahead of the one that compares, so that their reports are bounded. */
const BLOCKS_AHEAD_MAX = 64 * BLOCKS_PER_RANGE
/** Blocks read at a time by the thread that compares. */
const BLOCKS_PER_PAGE = 64
/** What a thread reads is garbage at once: with more room it would only be collected later. */
const YOUNG_MB = 12
/**
 * Room for the longest block, which is 128 Mi characters. From what may be used V8 derives how much garbage
 * it lets lie about: with its own 4 GiB a thread grew to 66 MB, with this to 40 (measured, a million items).
 */
const OLD_MB = 1_024

/** Main thread to walker: the heights to recompute. */
export interface RangeToWalk {
  readonly from: number
  readonly to: number
}

/**
 * Walker to main thread: for each block of the range that holds what it is as a plain block, or null
 * when it is none; and what does not hold in the block behind them, or null.
 */
export interface RangeWalked {
  readonly from: number
  readonly plain: readonly (PlainBlock | null)[]
  readonly finding: Finding | null
}

/** Main thread to walker: to ask the engine for damage of its file; the chain has `ofBlocks`. */
export interface FileToCheck {
  readonly ofBlocks: number
}

/** Walker to main thread: what the engine has found wrong, or null. */
export interface FileChecked {
  readonly finding: Finding | null
}

/** What a walker is started with. */
export interface WalkerStart {
  readonly folder: string
}

/** A step of a walk by threads: as `Walked`; of plain blocks nothing more is read. */
export interface WalkedAhead {
  readonly blocks: readonly (Block | PlainBlock)[]
  readonly finding: Finding | null
}

/**
 * A walk whose recomputing is done by threads, range by range, ahead of the one that reads on: `next`
 * gives blocks only when all up to them were found to hold.
 */
export class WalkThreads {
  readonly #store: StoreReader
  readonly #size: number
  readonly #workers: readonly Worker[]
  /** Those that have nothing to do. */
  readonly #idle: Worker[] = []
  /** The ranges that are done and not yet passed, by their first height. */
  readonly #done = new Map<number, RangeWalked>()
  /** The height from which on no range was given out. */
  #given = 0
  /** What the blocks that hold are as plain blocks, from `#at` on. */
  readonly #plain: (PlainBlock | null)[] = []
  /** The next block to be given. */
  #at = 0
  #finding: Finding | null = null
  #failure: Error | null = null
  /** What the engine says of its file as a whole; null until it has said it. */
  #checked: FileChecked | null = null
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
    // The longest piece comes first, beside all others.
    const check: FileToCheck = { ofBlocks: size }
    this.#idle.pop()?.postMessage(check)
    this.#give()
  }

  /** The next blocks; as `ChainWalk.next`. */
  async next(): Promise<WalkedAhead> {
    await this.#until(
      () => this.#plain.length > 0 || this.#at === this.#size || this.#finding !== null,
    )
    const blocks = await this.#read()
    if ('finding' in blocks) return { blocks: [], finding: blocks.finding }
    if (blocks.length === 0) return this.#end()
    this.#at += blocks.length
    this.#plain.splice(0, blocks.length)
    this.#give()
    return { blocks, finding: null }
  }

  /** As `damageOf`; a thread has asked from the beginning. */
  async damage(): Promise<FileChecked> {
    await this.#until(() => this.#checked !== null)
    return this.#checked ?? { finding: null }
  }

  /** Ends the threads. */
  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()))
  }

  async #until(isSo: () => boolean): Promise<void> {
    while (!isSo()) {
      if (this.#failure !== null) throw this.#failure
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  /** Plain blocks as they were met, or a page of others up to the next plain one. */
  async #read(): Promise<(Block | PlainBlock)[] | { readonly finding: Finding }> {
    const page = this.#plain.slice(0, BLOCKS_PER_PAGE)
    const others = page.indexOf(null)
    const plain = page.slice(0, others === -1 ? page.length : others)
    const first = plain.filter((block) => block !== null)
    if (first.length > 0 || page.length === 0) return first
    const behind = page.findIndex((block) => block !== null)
    const limit = behind === -1 ? page.length : behind
    const read = await damageAsFinding(this.#at, async () => ({
      blocks: await this.#store.blocks(this.#store.serverId, this.#at, limit),
    }))
    return 'finding' in read ? read : read.blocks
  }

  async #end(): Promise<WalkedAhead> {
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
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB, maxOldGenerationSizeMb: OLD_MB },
    })
    worker.on('message', (done: RangeWalked | FileChecked) => {
      this.#idle.push(worker)
      if ('plain' in done) this.#done.set(done.from, done)
      else this.#checked = done
      this.#pass()
      this.#give()
      this.#wake()
    })
    worker.on('error', (error) => {
      this.#failure ??= error
      this.#wake()
    })
    this.#idle.push(worker)
    return worker
  }

  /** Gives what is to be done to those that have nothing to do. */
  #give(): void {
    while (this.#given < Math.min(this.#size, this.#at + BLOCKS_AHEAD_MAX)) {
      if (this.#finding !== null) return
      const worker = this.#idle.pop()
      if (worker === undefined) return
      const from = this.#given
      this.#given = Math.min(from + BLOCKS_PER_RANGE, this.#size)
      const range: RangeToWalk = { from, to: this.#given }
      worker.postMessage(range)
    }
  }

  /** Goes over the ranges that are done, in their order. */
  #pass(): void {
    const holds = () => this.#at + this.#plain.length
    for (let next = this.#done.get(holds()); next !== undefined && this.#finding === null; ) {
      this.#done.delete(next.from)
      this.#plain.push(...next.plain)
      this.#finding = next.finding
      next = this.#done.get(holds())
    }
  }
}
