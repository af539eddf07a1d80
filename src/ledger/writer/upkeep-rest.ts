/** A piece of upkeep that takes as long is a long one: after an erasure the whole file is written anew. */
const LONG_PIECE_MS = 100
/** After a long piece there is none for so many times as long: most of the time is for blocks. */
const REST_TIMES = 4
/** The longest rest. */
const REST_MS_MAX = 60_000

/**
 * For how long there is no upkeep after a piece of it that took `pieceMs`; milliseconds. Source:
 * docs/decisions/0068-erasure.md.
 */
export function restAfter(pieceMs: number): number {
  return pieceMs < LONG_PIECE_MS ? 0 : Math.min(REST_TIMES * pieceMs, REST_MS_MAX)
}
