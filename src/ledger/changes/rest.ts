/** After a turn the feed rests this many times as long as it took, while nobody writes. */
const TIMES_ALONE = 1
/** While changes are being written: it takes a tenth of the event loop. */
const TIMES_BESIDE_WRITERS = 9
/** While changes are being written that no follower wanted: nobody waits for them. */
const TIMES_FOR_NOBODY = 29
/** While the event loop is crowded, too: this much more for each slice that was handed over, milliseconds. */
const SLICE_MS_CROWDED = 6
/** The event loop is crowded when others take this share of it. */
const CROWDED_SHARE = 0.5
/** The longest rest. */
const REST_MS_MAX = 1_000

/** What was going on beside the feed since its last turn ended. */
export interface Beside {
  /** Whether changes were written. */
  readonly written: boolean
  /** The share of the event loop that was taken, 0 to 1. */
  readonly loopShare: number
  /** Slices that the turn handed to connections. */
  readonly handed: number
}

/**
 * How long the feed rests after a turn of `turnMs`, both in milliseconds.
 *
 * A turn is not all that it costs. A slice that is handed to a connection is carried on by the system,
 * and read by a client that may be on the same machine: together many times as long as handing it over
 * took, and the feed sees nothing of it. Where there are processors to spare that costs nobody anything;
 * where there are none, writers would pay. What a turn reads and puts into words it sees whole: one
 * follower keeps up with writers at full speed.
 */
export function restMs(turnMs: number, { written, loopShare, handed }: Beside): number {
  if (!written) return Math.min(turnMs * TIMES_ALONE, REST_MS_MAX)
  const crowded = loopShare >= CROWDED_SHARE ? handed * SLICE_MS_CROWDED : 0
  const times = handed === 0 ? TIMES_FOR_NOBODY : TIMES_BESIDE_WRITERS
  return Math.min(turnMs * times + crowded, REST_MS_MAX)
}
