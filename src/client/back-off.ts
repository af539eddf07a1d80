/** What waiting is made of, so that tests need not wait. */
export interface Timing {
  /** Resolves after `ms` milliseconds; rejects with the reason of `signal` when that comes first. */
  sleep(ms: number, signal: AbortSignal | undefined): Promise<void>
  /** From 0 up to, not including, 1. */
  random(): number
}

const FIRST_MS = 100

/**
 * Milliseconds to wait before attempt `attempt`, the first repetition being 1: twice as long each
 * time up to `maxMs`, and by chance half of it, so that clients that failed together do not come back together.
 */
export function backOffMs(attempt: number, maxMs: number, random: () => number): number {
  const full = Math.min(FIRST_MS * 2 ** (attempt - 1), maxMs)
  return Math.round(full * (0.5 + random() / 2))
}

/** The timers and the chance of the machine. */
export const MACHINE_TIMING: Timing = {
  random: () => Math.random(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason)
        return
      }
      const onAbort = () => {
        clearTimeout(timer)
        reject(signal?.reason)
      }
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', onAbort)
        resolve()
      }, ms)
      signal?.addEventListener('abort', onAbort, { once: true })
    }),
}
