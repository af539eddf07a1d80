import type { Schedule } from '../../base/clock.ts'
import { type Head, packPosition, unpackHeight } from '../../chain/index.ts'
import { StoreError, type StoreReader } from '../../storage/index.ts'
import type { LedgerError } from '../errors.ts'
import type { SeenBlock } from './messages.ts'

/** Interval between polls for blocks of other processes, milliseconds. */
const POLL_MS = 100
/**
 * Number of consecutive polls without finding a block after which the block counts as lost (about 5 s). Fewer polls are
 * no proof, because a former primary database server, which lacks the newest blocks, may answer until it is shut down.
 */
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

export interface FollowerCalls {
  /** Receives each new head that was read or noted. */
  readonly seen: (head: SeenBlock) => void
  /** Called if the chain no longer contains a block that was read before, for example after a failover. */
  readonly lost: (message: string) => void
}

/**
 * Reports new blocks of the node's own chain in order, each block once: blocks of this process when `committed` is
 * called, blocks of other processes after at most POLL_MS. A poll can report a block of this process before
 * `committed` is called.
 */
export class HeadFollower {
  readonly #reader: StoreReader
  readonly #calls: FollowerCalls
  /** Height of the next block to report. */
  #next: number
  /** The newest head that was read. Every later head must be the same block or follow it. */
  #seen: SeenBlock | null = null
  /** Number of consecutive polls that did not find a block. */
  #lostPolls = 0
  #cancelPoll: () => void = () => {}
  #polling: Promise<void> = Promise.resolve()
  /** The current or last read of the head, and the read that follows it. */
  #read: Promise<string | null> = Promise.resolve(null)
  #nextRead: Promise<string | null> | null = null
  readonly #listeners = new Set<(blocks: NewBlocks) => void>()
  #isShared = false
  #isClosed = false

  /** Returns the reason why the networks of this node cannot follow the changes of other processes, or null. */
  findFailure: () => LedgerError | StoreError | null = () => null

  /** `size`: number of existing blocks, which are not reported. Polls report nothing while a block is missing. */
  constructor(reader: StoreReader, size: number, calls: FollowerCalls) {
    this.#reader = reader
    this.#next = size
    this.#calls = calls
  }

  /**
   * Height of the next block to report. All earlier blocks were reported, or existed when this follower was created.
   */
  get size(): number {
    return this.#next
  }

  /** Whether other processes can append to the chain. Then `poll` was called. */
  get isShared(): boolean {
    return this.#isShared
  }

  /** Calls `listener` with new blocks of this and other processes. The returned function removes `listener`. */
  listen(listener: (blocks: NewBlocks) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Must be called when a block of this process is durable. `last`: packed position of the last entry of the block. */
  committed(last: number): void {
    this.#advance(last, unpackHeight(last) === this.#next)
  }

  /** Notes a head that another thread of this process has read. */
  noteSeen(head: SeenBlock): void {
    if (head.height <= (this.#seen?.height ?? -1)) return
    this.#seen = head
    this.#calls.seen(head)
  }

  /** Starts to poll. Necessary only if other processes can append to the chain. */
  poll(schedule: Schedule): void {
    this.#isShared = true
    if (this.#isClosed) return
    this.#cancelPoll = schedule.after(POLL_MS, () => {
      // A failed poll is ignored, because the next poll reports the same blocks.
      this.#polling = this.#readHead().then(
        (missing) => this.#reportLoss(missing),
        () => {},
      )
      void this.#polling.then(() => this.poll(schedule))
    })
  }

  /**
   * Reports all committed blocks that were not reported before. Errors: StoreError; STORE_UNAVAILABLE while the
   * database lacks a block that was read before.
   */
  async catchUp(): Promise<void> {
    const missing = await this.#readHead()
    if (missing !== null) throw new StoreError('STORE_UNAVAILABLE', missing)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelPoll()
    await this.#polling
  }

  /** Reads the head once for all calls that arrive before the read begins. Returns as `#reportCommitted`. */
  #readHead(): Promise<string | null> {
    const read = () => {
      this.#read = this.#nextRead ?? this.#read
      this.#nextRead = null
      return this.#reportCommitted()
    }
    this.#nextRead ??= this.#read.then(read, read)
    return this.#nextRead
  }

  /** Reports new blocks, or returns a message about an earlier block that the chain does not contain. */
  async #reportCommitted(): Promise<string | null> {
    const { serverId } = this.#reader
    this.#reader.refresh()
    // Saved before the head is read. During the read, `committed` may report later blocks, which `head` does not
    // contain although they are not lost.
    const before = { size: this.#next, seen: this.#seen }
    const head = await this.#reader.head(serverId)
    const missing = await this.#findMissing(head, before)
    if (missing !== null || head === null) return missing
    this.noteSeen(head)
    if (head.height < this.#next) return null
    const { height } = head
    const entries = await this.#reader.countEntries(serverId, height, height + 1)
    // A failover between the two reads has lost the block.
    if (entries === 0) return `block ${height} was stored, but is missing in the database`
    this.#advance(packPosition(height, entries - 1), false)
    return null
  }

  /** Returns a message about an earlier block that the chain up to `head` does not contain, or null. */
  async #findMissing(
    head: Head | null,
    { size, seen }: { readonly size: number; readonly seen: SeenBlock | null },
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

  #reportLoss(missing: string | null): void {
    this.#lostPolls = missing === null ? 0 : this.#lostPolls + 1
    if (this.#lostPolls === LOST_POLLS && !this.#isClosed) this.#calls.lost(missing ?? '')
  }

  #advance(last: number, isOwn: boolean): void {
    const from = this.#next
    if (this.#isClosed || unpackHeight(last) < from) return
    this.#next = unpackHeight(last) + 1
    for (const listener of this.#listeners) listener({ from, last, isOwn })
  }
}
