import type { Counts } from './checks.ts'
import { type Outcome, runSeed } from './run.ts'

/** Number of trace lines in the description of a failed seed. */
const LINES_SHOWN = 40

/**
 * Runs the seeds from `from` to `to`, inclusive. Returns counts of the checks.
 * Errors: a description of the first world with a violated invariant.
 */
export async function runSeeds(
  from: number,
  to: number,
): Promise<Pick<Counts, 'forks' | 'restored'>> {
  let [forks, restored] = [0, 0]
  for (let seed = from; seed <= to; seed += 1) {
    const outcome = await runSeed(seed)
    if (outcome.faults.length > 0) throw new Error(failureText(seed, outcome))
    forks += outcome.counts.forks
    restored += outcome.counts.restored
  }
  return { forks, restored }
}

/** Returns a description of a world that violated an invariant. */
export function failureText(seed: number, { kind, faults, trace }: Outcome): string {
  return [
    `seed ${seed} (${kind}): ${[...new Set(faults)].join('; ')}`,
    `whole trace: npm run -s simulate -- ${seed}`,
    ...trace.slice(-LINES_SHOWN),
  ].join('\n')
}
