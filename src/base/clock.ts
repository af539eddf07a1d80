/** Source of the current time. Passed as an argument, so that tests can control the time. */
export interface Clock {
  /** Returns the time in whole milliseconds. `systemClock` counts from the Unix epoch. */
  now(): number
}

export const systemClock: Clock = { now: () => Date.now() }

/** Milliseconds since the start of the process; never decreases. */
export const monotonicClock: Clock = { now: () => Math.floor(performance.now()) }

/** Runs functions later. Passed as an argument, so that tests can control the timers. */
export interface Schedule {
  /** Calls `run` once after `ms` milliseconds; the returned function cancels it. */
  after(ms: number, run: () => void): () => void
}

/** System timers. They do not keep the process alive. */
export const systemSchedule: Schedule = {
  after: (ms, run) => {
    const timer = setTimeout(run, ms).unref()
    return () => clearTimeout(timer)
  },
}
