// How long random tests run. `DAICHO_TEST_THOROUGH=1 npm test` runs all rounds. Without it, random tests run a fifth of
// their rounds, with another seed in each run.
import { isOnDatabases } from './engine.ts'

export const IS_THOROUGH = process.env.DAICHO_TEST_THOROUGH === '1'

/** Returns `count`, a fifth of it unless the run is thorough, or at most 2 if nodes use databases, which are slower. */
export function roundsOf(count: number): number {
  if (IS_THOROUGH) return count
  const rounds = Math.ceil(count / 5)
  return isOnDatabases() ? Math.min(rounds, 2) : rounds
}

/**
 * Returns a function that decides before each run of a property whether to continue. It continues before the
 * first run, and then until `ms` milliseconds have passed, or a fifth
 * of them unless the run is thorough. Further runs are skipped. A time limit of the test
 * runner would instead fail if a busy computer does not complete the first run in time.
 */
export function timeFor(ms: number): () => boolean {
  const endMs = performance.now() + (IS_THOROUGH ? ms : ms / 5)
  let isFirst = true
  return () => {
    const goesOn = isFirst || performance.now() < endMs
    isFirst = false
    return goesOn
  }
}
