/** Whatever tells the time: an argument everywhere, so that tests set it by hand. */
export interface Clock {
  /** Integer milliseconds since the Unix epoch. */
  now(): number
}

/** The machine's own clock. */
export const systemClock: Clock = { now: () => Date.now() }
