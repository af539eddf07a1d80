// The other seeds, beside the first ones: docs/decisions/0107-simulation.md.
import { expect, it } from 'vitest'
import { runSeed } from './run.ts'
import { runSeeds } from './seeds.ts'

const SEEDS_MS = 600_000

for (let from = 501; from <= 1_000; from += 50) {
  it(
    `seeds ${from} to ${from + 49}: what holds for the first ones`,
    () => runSeeds(from, from + 49),
    SEEDS_MS,
  )
}

it(
  'keys that were copied do sign two histories, and nodes are restored: there is something to find',
  async () => {
    let [forks, restored] = [0, 0]
    for (let seed = 501; seed <= 530; seed += 1) {
      const { counts } = await runSeed(seed)
      forks += counts.forks
      restored += counts.restored
    }
    expect(forks).toBeGreaterThan(0)
    expect(restored).toBeGreaterThan(0)
  },
  SEEDS_MS,
)
