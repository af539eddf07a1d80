import type { Schedule } from '../base/clock.ts'
import { heightOf, packPosition } from '../chain/index.ts'
import type { StoreReader } from '../storage/index.ts'

/** Interval at which a chain is polled for blocks of other processes. */
const POLL_MS = 100

/** Blocks that became visible to the reader. */
export interface NewBlocks {
  /** Height of the first block. */
  readonly from: number
  /** Packed position of the last entry. */
  readonly last: number
  /** False if another process may have written some of the blocks. */
  readonly isOwn: boolean
}

/**
 * Reports new blocks of the node's own chain in order, each block once: blocks of this process when `committed` is
 * called, blocks of other processes after at most POLL_MS. A poll can report a block of this process before
 * `committed` is called.
 */
export class HeadFollower {
  readonly #reader: StoreReader
  readonly #report: (blocks: NewBlocks) => void
  /** Height of the next block to report. */
  #next: number
  #cancelPoll: () => void = () => {}
  #polling: Promise<void> = Promise.resolve()
  #isClosed = false

  /** `size` is the number of blocks that need no report. */
  constructor(reader: StoreReader, size: number, report: (blocks: NewBlocks) => void) {
    this.#reader = reader
    this.#next = size
    this.#report = report
  }

  /** Number of blocks of the chain that were reported. */
  get size(): number {
    return this.#next
  }

  /** Called when a block of this process is durable; `last` is the packed position of its last entry. */
  committed(last: number): void {
    this.#advance(last, heightOf(last) === this.#next)
  }

  /** Starts to poll; call if other processes can append. */
  poll(schedule: Schedule): void {
    if (this.#isClosed) return
    this.#cancelPoll = schedule.after(POLL_MS, () => {
      // While the store cannot be read, nothing new can be reported.
      this.#polling = this.catchUp().catch(() => {})
      void this.#polling.then(() => this.poll(schedule))
    })
  }

  /** Reports the blocks that are committed now. Errors: StoreError. */
  async catchUp(): Promise<void> {
    const { serverId } = this.#reader
    this.#reader.refresh()
    const head = await this.#reader.head(serverId)
    if (head === null || head.height < this.#next) return
    const { height } = head
    const entries = await this.#reader.countEntries(serverId, height, height + 1)
    this.#advance(packPosition(height, entries - 1), false)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelPoll()
    await this.#polling
  }

  #advance(last: number, isOwn: boolean): void {
    const from = this.#next
    if (this.#isClosed || heightOf(last) < from) return
    this.#next = heightOf(last) + 1
    this.#report({ from, last, isOwn })
  }
}
