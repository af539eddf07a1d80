import { setTimeout as delay } from 'node:timers/promises'

/**
 * Default time limit, milliseconds. Less than the test timeout in `vitest.config.ts`, so that the error
 * contains the description.
 */
export const WAIT_MS = 250_000
/** The first and the longest pause between two polls. A poll can take milliseconds of the node for which it waits. */
const PAUSE_MS = 10
const PAUSE_MS_MAX = 80

/** Polls until `isSo` returns true. Throws an error with `description` after `waitMs` milliseconds. */
export async function until(
  description: string,
  isSo: () => boolean | Promise<boolean>,
  waitMs = WAIT_MS,
): Promise<void> {
  const endMs = Date.now() + waitMs
  for (let pauseMs = PAUSE_MS; !(await isSo()); pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX)) {
    if (Date.now() > endMs) throw new Error(`not within ${waitMs} ms: ${description}`)
    await delay(pauseMs)
  }
}
