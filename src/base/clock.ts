/** Whatever tells the time: an argument everywhere, so that tests set it by hand. */
export interface Clock {
  /** Integer milliseconds; of the system clock, since the Unix epoch. */
  now(): number
}

/** The machine's own clock. */
export const systemClock: Clock = { now: () => Date.now() }

/** Milliseconds since the start of the process: never set back, and no time of day. */
export const monotonicClock: Clock = { now: () => Math.floor(performance.now()) }
