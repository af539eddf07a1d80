import type { Schedule } from '../../base/clock.ts'
import { heightOf, packPosition, positionText } from '../../chain/index.ts'
import type { StoreReader } from '../../storage/index.ts'
import { LedgerError } from '../errors.ts'
import type { EntryPage, Slice } from './entry-page.ts'
import { PageShelf } from './page-shelf.ts'
import { restMs } from './rest.ts'

/** Where a follower begins: before the first entry, behind the last one, or behind a packed position. */
export type ChangesStart = 'start' | 'now' | number

/** How much the feed bears. */
export interface FeedBounds {
  /** Followers at the same time. */
  readonly followersMax: number
  /** What pages that were read are kept, in characters and bytes; the oldest go first. */
  readonly keptMax: number
  /** Bytes that connections have not taken yet, shared ones counted once. */
  readonly heldBytesMax: number
  /** A follower to whom nothing was sent for this long is sent a sign of life. */
  readonly heartbeatMs: number
}

/** The bounds of a node. */
export const FEED_BOUNDS: FeedBounds = {
  followersMax: 2_000,
  keptMax: 16 * 1024 * 1024,
  heldBytesMax: 64 * 1024 * 1024,
  heartbeatMs: 15_000,
}

/** A turn ends with the follower that reaches this time. */
const TURN_MS = 10
/** What a connection must take from one heartbeat to the next but one. */
const BYTES_PER_BEAT = 262_144

/** Whoever follows a chain. */
export interface Follower {
  /** Takes what it wants of `page` from packed position `from` on; returns where to go on from. */
  take(page: EntryPage, from: number): number
  /** Whether it has taken something and wants nothing more until it says so (`Seat.ready`). */
  readonly busy: boolean
  /** What its connection has not taken yet. */
  readonly held: Slice | null
  /** Nothing was sent from one heartbeat to the next. `passed`: packed; null while it catches up. */
  beat(passed: number | null): void
  /** The feed lets go of it; `error` when it could not go on. */
  end(error: Error | null): void
}

/** Why followers went. */
export type Leaving = 'left' | 'stalled' | 'crowded' | 'failed' | 'closing'

/** A follower's place in the feed. */
export interface Seat {
  /** The packed position of the entry after which the follower was let in; null for the start. */
  readonly after: number | null
  /** The follower wants more. */
  ready(): void
  /** It is gone. */
  leave(): void
}

interface Place {
  readonly follower: Follower
  /** Packed position of the next entry to look at. */
  next: number
  held: Slice | null
  /** Heartbeats since something was sent or taken. */
  beats: number
}

/** What a feed is made of. */
export interface FeedDeps {
  readonly store: StoreReader
  readonly schedule: Schedule
  readonly bounds: FeedBounds
}

/**
 * The entries of a chain for whoever follows it, each once and in order.
 *
 * A follower is a position. What it has not been given stays in the store, so a slow one costs no
 * memory but one slice. What is read is read once for all followers at the same place, and with no
 * follower nothing is read at all.
 *
 * Writers go first: after each turn the feed rests, many times as long as the turn took while changes
 * are being written, and longer the more it handed over (`rest.ts`). What came meanwhile goes out together. What comes while it is idle
 * goes out at once.
 */
export class ChangeFeed {
  readonly #deps: FeedDeps
  /** Packed position of the last entry, or null while there is none. */
  #last: number | null
  /** Packed position behind the last block. */
  #end: number
  /** Followers that have all there is; that can be given more; that are still taking. Oldest first. */
  readonly #idle = new Set<Place>()
  readonly #due = new Set<Place>()
  readonly #busy = new Set<Place>()
  readonly #pages: PageShelf
  #heldBytes = 0
  #turning = false
  /** Whether anything was written since the last turn began, but for what woke the feed. */
  #written = false
  /** Slices that the turn has handed over. */
  #handed = 0
  /** The event loop's time when the last turn ended. */
  #restedFrom = performance.eventLoopUtilization()
  #closed = false
  #forgetBeat: (() => void) | null = null
  readonly #leavings = { left: 0, stalled: 0, crowded: 0, failed: 0, closing: 0 }

  /** `last` is the packed position of the last entry, or null while there is none. */
  constructor(last: number | null, deps: FeedDeps) {
    this.#deps = deps
    this.#last = last
    this.#end = last === null ? 0 : packPosition(heightOf(last) + 1, 0)
    this.#pages = new PageShelf(deps.store, deps.bounds.keptMax)
  }

  /** Followers at this moment. */
  get followers(): number {
    return this.#idle.size + this.#due.size + this.#busy.size
  }

  /** How many followers have gone, by the reason. */
  get leavings(): Readonly<Record<Leaving, number>> {
    return this.#leavings
  }

  /** Bytes that connections have not taken yet; what several wait for is counted once. */
  get heldBytes(): number {
    return this.#heldBytes
  }

  /** The block of the entry at packed position `last` is durable, and the store's reader shows it. */
  committed(last: number): void {
    this.#last = last
    this.#end = packPosition(heightOf(last) + 1, 0)
    if (this.#turning) this.#written = true
    if (this.#idle.size === 0) return
    for (const place of this.#idle) this.#due.add(place)
    this.#idle.clear()
    this.#wake()
  }

  /** Entries have been erased: what was read of the chain before is not sent any more. */
  erased(): void {
    this.#pages.clear()
  }

  /**
   * Whether a follower could be let in.
   * Errors: POSITION_UNKNOWN when there is no entry at the position, FEED_UNAVAILABLE.
   */
  async check(after: ChangesStart): Promise<void> {
    this.#refuseWhenFull()
    if (typeof after === 'number') await this.#checkEntry(after)
  }

  /** Lets `follower` in. Errors: as for `check`. */
  async join(follower: Follower, after: ChangesStart): Promise<Seat> {
    await this.check(after)
    // Once more, after the wait. From here on nothing can happen in between.
    this.#refuseWhenFull()
    const passed = after === 'now' ? this.#last : after === 'start' ? null : after
    const next = after === 'now' ? this.#end : passed === null ? 0 : passed + 1
    const place: Place = { follower, next, held: null, beats: 0 }
    this.#seat(place)
    if (this.followers === 1) this.#beatLater()
    return {
      after: passed,
      ready: () => this.#ready(place),
      leave: () => void this.#unseat(place, 'left'),
    }
  }

  /** Ends all followers; nobody is let in any more. */
  close(): void {
    this.#closed = true
    for (const place of this.#places()) this.#dismiss(place, 'closing', null)
    this.#pages.clear()
  }

  #places(): Place[] {
    return [...this.#idle, ...this.#due, ...this.#busy]
  }

  #refuseWhenFull(): void {
    if (this.#closed) throw new LedgerError('FEED_UNAVAILABLE', 'the node is closing')
    if (this.followers < this.#deps.bounds.followersMax) return
    throw new LedgerError(
      'FEED_UNAVAILABLE',
      'too many follow the changes already; try again later',
    )
  }

  async #checkEntry(position: number): Promise<void> {
    const known = this.#last !== null && position <= this.#last
    if (known && (await this.#page(heightOf(position))).holds(position)) return
    throw new LedgerError(
      'POSITION_UNKNOWN',
      `the chain has no entry at ${positionText(position)}; it may have been restored from a copy`,
    )
  }

  /**
   * The page that begins at `height`. It ends where the feed does: the store may show a block before
   * its writer has told of it, and followers that were ahead of the feed would be called back.
   */
  #page(height: number): Promise<EntryPage> {
    return this.#pages.at(height, heightOf(this.#end))
  }

  /** Puts `place` where it belongs now. */
  #seat(place: Place): void {
    if (place.follower.busy) {
      this.#busy.add(place)
    } else if (place.next >= this.#end) {
      this.#idle.add(place)
    } else {
      this.#due.add(place)
      this.#wake()
    }
  }

  #ready(place: Place): void {
    if (!this.#busy.delete(place)) return
    this.#release(place)
    place.beats = 0
    this.#seat(place)
  }

  /** Whether it was there at all. */
  #unseat(place: Place, why: Leaving): boolean {
    const was = this.#idle.delete(place) || this.#due.delete(place) || this.#busy.delete(place)
    if (!was) return false
    this.#release(place)
    this.#leavings[why] += 1
    if (this.followers === 0) {
      this.#forgetBeat?.()
      this.#forgetBeat = null
      this.#pages.clear()
    }
    return true
  }

  #dismiss(place: Place, why: Leaving, error: Error | null): void {
    if (this.#unseat(place, why)) place.follower.end(error)
  }

  #wake(): void {
    if (this.#turning) return
    this.#turning = true
    this.#deps.schedule.after(0, () => void this.#turn())
  }

  /** Serves followers until there are none to serve or the time is up; then rests. */
  async #turn(): Promise<void> {
    const startedAt = performance.now()
    const loopShare = performance.eventLoopUtilization(this.#restedFrom).utilization
    for (const place of this.#due) {
      try {
        const height = heightOf(place.next)
        const page = this.#pages.kept(height) ?? (await this.#page(height))
        // It may have gone while the page was read.
        if (!this.#due.delete(place)) continue
        this.#serve(place, page)
      } catch (error) {
        const reason = error instanceof Error ? error : new Error(String(error))
        this.#dismiss(place, 'failed', reason)
      }
      if (performance.now() - startedAt > TURN_MS) break
    }
    // All have all there is: what was read is young garbage as long as nothing keeps it.
    if (this.#due.size + this.#busy.size === 0) this.#pages.clear()
    const beside = { written: this.#written, loopShare, handed: this.#handed }
    const rest = restMs(performance.now() - startedAt, beside)
    this.#written = false
    this.#handed = 0
    this.#restedFrom = performance.eventLoopUtilization()
    this.#deps.schedule.after(rest, () => {
      this.#turning = this.#due.size > 0
      if (this.#turning) void this.#turn()
    })
  }

  #serve(place: Place, page: EntryPage): void {
    place.next = place.follower.take(page, place.next)
    const { held } = place.follower
    if (held !== null) this.#hold(place, held)
    this.#seat(place)
    // The one that has waited longest is the slowest.
    for (const slowest of this.#busy) {
      if (this.#heldBytes <= this.#deps.bounds.heldBytesMax) break
      if (slowest.held !== null) this.#dismiss(slowest, 'crowded', null)
    }
  }

  #hold(place: Place, slice: Slice): void {
    place.held = slice
    place.beats = 0
    this.#handed += 1
    if (slice.holders === 0) this.#heldBytes += slice.bytes.length
    slice.holders += 1
  }

  #release(place: Place): void {
    const slice = place.held
    if (slice === null) return
    place.held = null
    slice.holders -= 1
    if (slice.holders === 0) this.#heldBytes -= slice.bytes.length
  }

  #beatLater(): void {
    this.#forgetBeat = this.#deps.schedule.after(this.#deps.bounds.heartbeatMs, () => this.#beat())
  }

  /** Signs of life to those who were sent nothing; an end for those who take nothing. */
  #beat(): void {
    for (const place of this.#places()) {
      place.beats += 1
      if (place.beats < 2) continue
      if (place.held !== null) {
        const allowed = 1 + Math.ceil(place.held.bytes.length / BYTES_PER_BEAT)
        if (place.beats > allowed) this.#dismiss(place, 'stalled', null)
      } else if (!place.follower.busy) {
        place.follower.beat(place.next >= this.#end ? this.#last : null)
      }
    }
    if (this.followers > 0) this.#beatLater()
  }
}
