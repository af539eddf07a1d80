import type { Schedule } from '../base/clock.ts'
import { type Head, heightOf, packPosition } from '../chain/index.ts'
import type { StoreReader } from '../storage/index.ts'

/** Interval at which a chain is polled for blocks of other processes. */
const POLL_MS = 100
/** Polls in a row that must find a block missing. A former primary server may answer until it is shut down. */
const LOST_POLLS = 50

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
  readonly #lost: (message: string) => void
  /** Height of the next block to report. */
  #next: number
  /** The newest head that was read. Every later head continues it. */
  #seen: Head | null = null
  /** The lost block that the last read of the head has found, or null, and for how many polls in a row. */
  #lostBlock: string | null = null
  #lostPolls = 0
  #cancelPoll: () => void = () => {}
  #polling: Promise<void> = Promise.resolve()
  #isClosed = false

  /**
   * `size` is the number of blocks that need no report. `lost` is called if the chain no longer contains a block that
   * was read before, for example after a failover; no blocks are reported then.
   */
  constructor(
    reader: StoreReader,
    size: number,
    report: (blocks: NewBlocks) => void,
    lost: (message: string) => void,
  ) {
    this.#reader = reader
    this.#next = size
    this.#report = report
    this.#lost = lost
  }

  /** Number of blocks of the chain that were reported. */
  get size(): number {
    return this.#next
  }

  /** Called when a block of this process is durable; `last` is the packed position of its last entry. */
  committed(last: number): void {
    this.#advance(last, heightOf(last) === this.#next)
  }

  /** Starts to poll. Called if other processes can append. */
  poll(schedule: Schedule): void {
    if (this.#isClosed) return
    this.#cancelPoll = schedule.after(POLL_MS, () => {
      // While the store cannot be read, nothing new can be reported.
      this.#polling = this.catchUp().then(
        () => this.#countLoss(),
        () => {},
      )
      void this.#polling.then(() => this.poll(schedule))
    })
  }

  /** Reports the blocks that are committed now. Errors: StoreError. */
  async catchUp(): Promise<void> {
    const { serverId } = this.#reader
    this.#reader.refresh()
    // Remembered before the head is read, because later blocks may be reported meanwhile.
    const before = { size: this.#next, seen: this.#seen }
    const head = await this.#reader.head(serverId)
    this.#lostBlock = await this.#missingIn(head, before)
    if (this.#lostBlock !== null || head === null) return
    if (head.height > (this.#seen?.height ?? -1)) this.#seen = head
    if (head.height < this.#next) return
    const { height } = head
    const entries = await this.#reader.countEntries(serverId, height, height + 1)
    this.#advance(packPosition(height, entries - 1), false)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelPoll()
    await this.#polling
  }

  /** Returns which block of the earlier chain is not in the chain up to `head`, or null. */
  async #missingIn(
    head: Head | null,
    { size, seen }: { readonly size: number; readonly seen: Head | null },
  ): Promise<string | null> {
    const height = head?.height ?? -1
    const last = Math.max(size - 1, seen?.height ?? -1)
    if (height < last) return `block ${last} was stored, but is missing in the database`
    if (seen === null || seen.id === head?.id) return null
    const [next] =
      height === seen.height
        ? []
        : await this.#reader.headers(this.#reader.serverId, seen.height + 1, 1)
    if (next?.prevId === seen.id) return null
    return `block ${seen.height} (${seen.id.slice(0, 16)}…) was stored, but differs in the database`
  }

  #countLoss(): void {
    this.#lostPolls = this.#lostBlock === null ? 0 : this.#lostPolls + 1
    if (this.#lostPolls === LOST_POLLS && !this.#isClosed) this.#lost(this.#lostBlock ?? '')
  }

  #advance(last: number, isOwn: boolean): void {
    const from = this.#next
    if (this.#isClosed || heightOf(last) < from) return
    this.#next = heightOf(last) + 1
    this.#report({ from, last, isOwn })
  }
}
