import { setTimeout as delay } from 'node:timers/promises'

/**
 * Default time limit, milliseconds. Less than the test timeout in `vitest.config.ts`, so that the error
 * contains the description.
 */
export const WAIT_MS = 250_000
const PAUSE_MS = 20

/** Polls until `isSo` returns true. Throws an error with `description` after `waitMs` milliseconds. */
export async function until(
  description: string,
  isSo: () => boolean | Promise<boolean>,
  waitMs = WAIT_MS,
): Promise<void> {
  const endMs = Date.now() + waitMs
  while (!(await isSo())) {
    if (Date.now() > endMs) throw new Error(`not within ${waitMs} ms: ${description}`)
    await delay(PAUSE_MS)
  }
}
