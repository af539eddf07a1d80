import type { Clock } from '../../base/clock.ts'

const MINUTE_MS = 60_000
/** Maximum number of minutes in memory: one day. */
const MINUTES_MAX = 1_440

/** The blocks that this process stored in one minute. */
export interface ActiveMinute {
  /** Start of the minute, milliseconds since the Unix epoch. */
  readonly time: number
  readonly blocks: number
  readonly entries: number
  /** Total bytes of the texts of the entries. */
  readonly bytes: number
  /** Size of the store at the first block of the minute; null if it is unknown. */
  readonly storeBytes: number | null
}

/** Counts the changes of the last 24 hours per minute. The counts are in memory, so they begin with this process. */
export class Activity {
  readonly #clock: Clock
  readonly #storeBytes: () => Promise<number>
  /** Minutes with at least one block, oldest first. */
  #minutes: { -readonly [Name in keyof ActiveMinute]: ActiveMinute[Name] }[] = []
  /** Start of this process, milliseconds since the Unix epoch. */
  readonly since: number

  constructor(clock: Clock, storeBytes: () => Promise<number>) {
    this.#clock = clock
    this.#storeBytes = storeBytes
    this.since = clock.now()
  }

  /** Current time of the node, milliseconds since the Unix epoch. */
  get now(): number {
    return this.#clock.now()
  }

  /** Adds a stored block to the counts of the current minute. */
  note({ entries, bytes }: { readonly entries: number; readonly bytes: number }): void {
    const now = this.#clock.now()
    let minute = this.#minutes.at(-1)
    // If the clock was set back, counts the block in the latest minute, so that `#minutes` stays in order.
    if (minute === undefined || now >= minute.time + MINUTE_MS) {
      const added = { time: now - (now % MINUTE_MS), blocks: 0, entries: 0, bytes: 0 }
      minute = { ...added, storeBytes: null }
      this.#minutes = [...this.#minutes.slice(1 - MINUTES_MAX), minute]
      void this.#measure(minute)
    }
    minute.blocks += 1
    minute.entries += entries
    minute.bytes += bytes
  }

  /** Lists the minutes with at least one block in the last 24 hours, oldest first. */
  minutes(): readonly ActiveMinute[] {
    const start = this.#clock.now() - MINUTES_MAX * MINUTE_MS
    return this.#minutes.filter(({ time }) => time > start)
  }

  async #measure(minute: { storeBytes: number | null }): Promise<void> {
    try {
      minute.storeBytes = await this.#storeBytes()
    } catch {
      // The size stays null, for example while a database server does not answer.
    }
  }
}
