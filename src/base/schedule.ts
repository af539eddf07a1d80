/** Whatever runs things later: an argument, so that tests turn the hands themselves. */
export interface Schedule {
  /** Calls `run` once after `ms` milliseconds; the returned function forgets it. */
  after(ms: number, run: () => void): () => void
}

/** The machine's timers. They never keep a process alive. */
export const systemSchedule: Schedule = {
  after: (ms, run) => {
    const timer = setTimeout(run, ms).unref()
    return () => clearTimeout(timer)
  },
}
