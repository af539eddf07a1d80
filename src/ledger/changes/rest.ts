/** After a turn the feed rests this many times as long as it took, while nobody writes. */
const TIMES_ALONE = 1
/** While changes are being written: it takes a tenth of the event loop. */
const TIMES_BESIDE_WRITERS = 9
/** While the event loop is crowded, too. */
const TIMES_CROWDED = 30
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
}

/**
 * How long the feed rests after a turn of `turnMs`, both in milliseconds.
 *
 * A turn is not all that it costs. What is handed to a thousand connections is carried on by the
 * system, and read by clients that may be on the same machine: together several times as much. Where
 * there are processors to spare that costs nobody anything; where there are none, writers would pay.
 */
export function restMs(turnMs: number, { written, loopShare }: Beside): number {
  const beside = loopShare >= CROWDED_SHARE ? TIMES_CROWDED : TIMES_BESIDE_WRITERS
  return Math.min(turnMs * (written ? beside : TIMES_ALONE), REST_MS_MAX)
}
