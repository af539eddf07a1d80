/** Tells the time. Passed as an argument, so that tests can set it. */
export interface Clock {
  /** Integer milliseconds; for the system clock, since the Unix epoch. */
  now(): number
}

/** The clock of the system. */
export const systemClock: Clock = { now: () => Date.now() }

/** Milliseconds since the start of the process; never goes back. */
export const monotonicClock: Clock = { now: () => Math.floor(performance.now()) }

/** Runs functions later. Passed as an argument, so that tests can decide when. */
export interface Schedule {
  /** Calls `run` once after `ms` milliseconds; the returned function cancels it. */
  after(ms: number, run: () => void): () => void
}

/** The timers of the system. They do not keep the process alive. */
export const systemSchedule: Schedule = {
  after: (ms, run) => {
    const timer = setTimeout(run, ms).unref()
    return () => clearTimeout(timer)
  },
}
