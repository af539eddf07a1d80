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

type Counted = { -readonly [Name in keyof ActiveMinute]: ActiveMinute[Name] }

function add(minute: Counted, more: Pick<ActiveMinute, 'blocks' | 'entries' | 'bytes'>): void {
  minute.blocks += more.blocks
  minute.entries += more.entries
  minute.bytes += more.bytes
}

/** Counts the changes of the last 24 hours per minute. The counts are in memory, so they begin with this process. */
export class Activity {
  readonly #clock: Clock
  readonly #storeBytes: () => Promise<number>
  /** Minutes with at least one block, oldest first. */
  #minutes: Counted[] = []
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
    const time = now - (now % MINUTE_MS)
    let minute = this.#minutes.at(-1)
    if (minute?.time !== time) {
      minute = { time, blocks: 0, entries: 0, bytes: 0, storeBytes: null }
      // If the clock was set back, the blocks of later minutes count in this one, so that `#minutes` stays in order.
      const isLater = (each: ActiveMinute) => each.time >= time
      for (const later of this.#minutes.filter(isLater)) add(minute, later)
      const before = this.#minutes.filter((each) => !isLater(each))
      this.#minutes = [...before.slice(1 - MINUTES_MAX), minute]
      void this.#measure(minute)
    }
    add(minute, { blocks: 1, entries, bytes })
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
