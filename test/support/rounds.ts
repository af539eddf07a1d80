// How long random tests run. `DAICHO_TEST_THOROUGH=1 npm test` runs all rounds. Without it, random tests run a fifth of
// their rounds, with another seed in each run, and loops over all positions of a file a fifth of the positions.
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
 * first run, and then until `ms` milliseconds have passed, or a tenth
 * of them unless the run is thorough. Further runs are skipped. A time limit of the test
 * runner would instead fail if a busy computer does not complete the first run in time.
 */
export function timeFor(ms: number): () => boolean {
  const endMs = performance.now() + (IS_THOROUGH ? ms : ms / 10)
  let isFirst = true
  return () => {
    const goesOn = isFirst || performance.now() < endMs
    isFirst = false
    return goesOn
  }
}

/** Returns the positions of `bytes` from `from` on: all if the run is thorough, else every fifth from a random one on. */
export function positions(bytes: Uint8Array, from = 0): number[] {
  const [step, first] = IS_THOROUGH ? [1, 0] : [5, Math.floor(Math.random() * 5)]
  return [...bytes.keys()].filter((at) => at >= from && at % step === first)
}
