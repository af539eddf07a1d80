import type { Schedule } from '../../base/clock.ts'
import { packPosition, positionText, unpackHeight } from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { EntryFilter } from '../read/entry-filter.ts'
import { type Chunk, type EntryPage, PageCache } from './page-cache.ts'

/** Where a subscription begins: before the first entry, after the last entry, or after a packed position. */
export type ChangesStart = 'start' | 'now' | number

export interface FeedBounds {
  readonly subscribersMax: number
  /** Maximum bytes of cached pages and chunks. */
  readonly cacheBytesMax: number
  /** Maximum bytes of chunks that connections have not accepted yet. A chunk for several subscribers counts once. */
  readonly heldBytesMax: number
  /** Interval of heartbeats to a subscriber to which nothing else is sent. */
  readonly heartbeatMs: number
}

export const FEED_BOUNDS: FeedBounds = {
  subscribersMax: 2_000,
  cacheBytesMax: 16 * 1024 * 1024,
  heldBytesMax: 64 * 1024 * 1024,
  heartbeatMs: 15_000,
}

/** Duration of a round of deliveries after which the round serves no further subscriber. */
const ROUND_MS = 10
/** Pause after a round as a multiple of the round while blocks are committed. Writers get nine tenths of the time. */
const PAUSE_FACTOR_WRITES = 9
const PAUSE_MS_MAX = 1_000
/** Bytes that a connection must accept per heartbeat interval. A slower connection counts as stalled. */
const BYTES_PER_HEARTBEAT = 262_144

/** The receiver of a subscription. */
export interface Subscriber {
  /** Sends events in wire format. The feed calls `send` again only after the subscriber has called `ready`. */
  send(events: Buffer): void
  /**
   * Sends a heartbeat. `passed` is the packed position of the last entry that was sent or filtered out, so that a
   * subscriber that catches up with a long chain need not start again if its connection ends; null before the first.
   */
  heartbeat(passed: number | null): void
  /** Called when the feed ends the subscription. `error` is null unless the chain could not be read. */
  end(error: Error | null): void
}

/**
 * Reason for the end of a subscription: the client left, the connection stalled, the connection was the slowest when
 * memory was short (`crowded`), the store could not be read, or the feed closed.
 */
export type EndReason = 'left' | 'stalled' | 'crowded' | 'failed' | 'closing'

export interface Subscription {
  /** Packed position after which the subscription began; null for the start. */
  readonly after: number | null
  /** Must be called when the connection has accepted the last events. */
  ready(): void
  /** Must be called when the subscriber is gone. */
  leave(): void
}

interface Slot {
  readonly subscriber: Subscriber
  readonly filter: EntryFilter | null
  /** Packed position of the next entry to send. */
  next: number
  /** Packed position of the last entry before `next`; null if there is none. */
  passed: number | null
  /** The sent chunk that the connection has not accepted yet, or null. */
  sentChunk: Chunk | null
  /** Number of heartbeat intervals since a chunk was sent or accepted. */
  idleHeartbeats: number
}

export interface FeedDeps {
  readonly store: StoreReader
  readonly schedule: Schedule
  readonly bounds: FeedBounds
  /** Reports the blocks that other processes have committed; absent if no other process can append. */
  readonly catchUp?: () => Promise<void>
}

/**
 * Delivers the entries of a chain to subscribers, each entry once and in order.
 *
 * A subscription is a position in the chain. Entries that were not sent yet are only in the store, so a slow subscriber
 * costs no more memory than one chunk. Pages are read only while there are subscribers, and all subscribers share them.
 *
 * Writers have priority: the feed works in delivery rounds of at most ROUND_MS, and pauses after each round for as long
 * as the round, or PAUSE_FACTOR_WRITES times as long while blocks are committed. Entries that are written while the feed
 * is idle are sent at once.
 */
export class ChangeFeed {
  readonly #deps: FeedDeps
  readonly #cache: PageCache
  /** Packed position of the last entry, or null if there is none. */
  #last: number | null
  /** Packed position after the last block. */
  #end: number
  /**
   * The subscriptions by state: up to date (`#idle`), with entries to send (`#due`), or with a chunk that the
   * connection has not accepted yet (`#busy`). Each set is in the order in which the subscriptions entered the state.
   */
  readonly #idle = new Set<Slot>()
  readonly #due = new Set<Slot>()
  readonly #busy = new Set<Slot>()
  #heldBytes = 0
  /** Whether a round or the pause after it is running or scheduled. */
  #isActive = false
  /** Whether a block was committed since the last round ended, not counting a block that started a new round. */
  #isWritten = false
  #closed = false
  #cancelHeartbeat: (() => void) | null = null
  readonly #ended = { left: 0, stalled: 0, crowded: 0, failed: 0, closing: 0 }

  /** `last`: packed position of the last entry, or null if there is none. */
  constructor(last: number | null, deps: FeedDeps) {
    this.#deps = deps
    this.#last = last
    this.#end = last === null ? 0 : packPosition(unpackHeight(last) + 1, 0)
    this.#cache = new PageCache(deps.store, deps.bounds.cacheBytesMax)
  }

  get subscribers(): number {
    return this.#idle.size + this.#due.size + this.#busy.size
  }

  get ended(): Readonly<Record<EndReason, number>> {
    return this.#ended
  }

  /** Bytes of chunks that connections have not accepted yet. A chunk for several subscribers counts once. */
  get heldBytes(): number {
    return this.#heldBytes
  }

  /**
   * Must be called when a new block is durable and visible to the reader. `last`: packed position of its last entry.
   */
  committed(last: number): void {
    this.#last = last
    this.#end = packPosition(unpackHeight(last) + 1, 0)
    if (this.#isActive) this.#isWritten = true
    if (this.#idle.size === 0) return
    for (const slot of this.#idle) this.#due.add(slot)
    this.#idle.clear()
    this.#activate()
  }

  /** Clears the cache. Must be called after an erasure, because the cache may contain erased entries. */
  erased(): void {
    this.#cache.clear()
  }

  /**
   * Checks whether a subscription can start. Errors: POSITION_UNKNOWN if there is no entry at the position,
   * FEED_UNAVAILABLE.
   */
  async check(after: ChangesStart): Promise<void> {
    this.#requireCapacity()
    // Catches up first, because another process may have committed entries that the feed does not know yet.
    if (after === 'now' || (typeof after === 'number' && after > (this.#last ?? -1))) {
      await this.#deps.catchUp?.()
    }
    if (typeof after === 'number') await this.#requireEntry(after)
  }

  /** Starts a subscription. Errors: as `check`. */
  async subscribe(
    subscriber: Subscriber,
    after: ChangesStart,
    filter: EntryFilter | null,
  ): Promise<Subscription> {
    await this.check(after)
    // Checks the capacity again, because it may have changed while `check` waited. There is no `await` from here on.
    this.#requireCapacity()
    const passed = after === 'now' ? this.#last : after === 'start' ? null : after
    const next = after === 'now' ? this.#end : passed === null ? 0 : passed + 1
    const slot: Slot = { subscriber, filter, next, passed, sentChunk: null, idleHeartbeats: 0 }
    this.#enqueue(slot)
    if (this.subscribers === 1) this.#scheduleHeartbeat()
    return {
      after: passed,
      ready: () => this.#ready(slot),
      leave: () => void this.#remove(slot, 'left'),
    }
  }

  /** Ends all subscriptions. New subscriptions are rejected. */
  close(): void {
    this.#closed = true
    for (const slot of this.#slots()) this.#endSubscription(slot, 'closing', null)
    this.#cache.clear()
  }

  #slots(): Slot[] {
    return [...this.#idle, ...this.#due, ...this.#busy]
  }

  #requireCapacity(): void {
    if (this.#closed) throw new LedgerError('FEED_UNAVAILABLE', 'the node is closing')
    if (this.subscribers < this.#deps.bounds.subscribersMax) return
    throw new LedgerError('FEED_UNAVAILABLE', 'there are too many subscribers; try again later')
  }

  async #requireEntry(position: number): Promise<void> {
    const isKnown = this.#last !== null && position <= this.#last
    if (isKnown && (await this.#page(unpackHeight(position))).holds(position)) return
    throw new LedgerError(
      'POSITION_UNKNOWN',
      `the chain has no entry at ${positionText(position)}; the chain may have been restored from an older copy`,
    )
  }

  /**
   * Returns the page that begins at `height`. The page ends with the last block that was reported to the feed, because
   * subscribers must not receive later blocks, which the store may already have.
   */
  #page(height: number): Promise<EntryPage> {
    return this.#cache.page(height, unpackHeight(this.#end))
  }

  /** Adds `slot` to the set for its state. */
  #enqueue(slot: Slot): void {
    if (slot.sentChunk !== null) this.#busy.add(slot)
    else if (slot.next >= this.#end) this.#idle.add(slot)
    else {
      this.#due.add(slot)
      this.#activate()
    }
  }

  #ready(slot: Slot): void {
    if (!this.#busy.delete(slot)) return
    this.#release(slot)
    slot.idleHeartbeats = 0
    this.#enqueue(slot)
  }

  /** Returns whether the slot was in the feed. */
  #remove(slot: Slot, reason: EndReason): boolean {
    const wasThere = this.#idle.delete(slot) || this.#due.delete(slot) || this.#busy.delete(slot)
    if (!wasThere) return false
    this.#release(slot)
    this.#ended[reason] += 1
    if (this.subscribers === 0) {
      this.#cancelHeartbeat?.()
      this.#cancelHeartbeat = null
      this.#cache.clear()
    }
    return true
  }

  #endSubscription(slot: Slot, reason: EndReason, error: Error | null): void {
    if (this.#remove(slot, reason)) slot.subscriber.end(error)
  }

  #activate(): void {
    if (this.#isActive) return
    this.#isActive = true
    this.#deps.schedule.after(0, () => void this.#round())
  }

  /** Serves due subscriptions until none is due or ROUND_MS has passed, then pauses. */
  async #round(): Promise<void> {
    const startedAt = performance.now()
    for (const slot of this.#due) {
      try {
        const height = unpackHeight(slot.next)
        const page = this.#cache.cached(height) ?? (await this.#page(height))
        // The subscriber may have left while the page was read.
        if (!this.#due.delete(slot)) continue
        this.#serve(slot, page)
      } catch (error) {
        const reason = error instanceof Error ? error : new Error(String(error))
        this.#endSubscription(slot, 'failed', reason)
      }
      if (performance.now() - startedAt > ROUND_MS) break
    }
    // If all subscribers are up to date, nobody needs the cached pages. They are freed now, because V8 frees young
    // objects cheaply.
    if (this.#due.size + this.#busy.size === 0) this.#cache.clear()
    const factor = this.#isWritten ? PAUSE_FACTOR_WRITES : 1
    const pauseMs = Math.min((performance.now() - startedAt) * factor, PAUSE_MS_MAX)
    this.#isWritten = false
    this.#deps.schedule.after(pauseMs, () => {
      this.#isActive = this.#due.size > 0
      if (this.#isActive) void this.#round()
    })
  }

  #serve(slot: Slot, page: EntryPage): void {
    const chunk = this.#cache.chunk(page, slot.next, slot.filter)
    slot.next = chunk.next
    slot.passed = chunk.last
    if (chunk.bytes.length > 0) this.#hold(slot, chunk)
    this.#enqueue(slot)
    if (chunk.bytes.length > 0) slot.subscriber.send(chunk.bytes)
    // If connections hold too many bytes, ends the slowest subscriptions: those that have been busy for longest.
    for (const slowest of this.#busy) {
      if (this.#heldBytes <= this.#deps.bounds.heldBytesMax) break
      this.#endSubscription(slowest, 'crowded', null)
    }
  }

  #hold(slot: Slot, chunk: Chunk): void {
    slot.sentChunk = chunk
    slot.idleHeartbeats = 0
    if (chunk.holders === 0) this.#heldBytes += chunk.bytes.length
    chunk.holders += 1
  }

  #release(slot: Slot): void {
    const chunk = slot.sentChunk
    if (chunk === null) return
    slot.sentChunk = null
    chunk.holders -= 1
    if (chunk.holders === 0) this.#heldBytes -= chunk.bytes.length
  }

  #scheduleHeartbeat(): void {
    const { schedule, bounds } = this.#deps
    this.#cancelHeartbeat = schedule.after(bounds.heartbeatMs, () => this.#heartbeat())
  }

  /** Sends heartbeats to idle subscribers, and ends subscriptions whose connection accepts too little data. */
  #heartbeat(): void {
    for (const slot of this.#slots()) {
      slot.idleHeartbeats += 1
      if (slot.idleHeartbeats < 2) continue
      if (slot.sentChunk !== null) {
        const allowed = 1 + Math.ceil(slot.sentChunk.bytes.length / BYTES_PER_HEARTBEAT)
        if (slot.idleHeartbeats > allowed) this.#endSubscription(slot, 'stalled', null)
      } else {
        slot.subscriber.heartbeat(slot.passed)
      }
    }
    if (this.subscribers > 0) this.#scheduleHeartbeat()
  }
}
