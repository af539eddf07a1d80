// The seeds from 51 on, in parallel with the first half (docs/decisions/0026-simulation-and-attacks.md).
import { expect, it } from 'vitest'
import { runSeeds } from './seeds.ts'

const SEEDS_MS = 600_000

it(
  'seeds 51 to 100: no invariant is violated, even with copied keys that sign two histories and with restored nodes',
  async () => {
    const { forks, restored } = await runSeeds(51, 100)
    expect(forks).toBeGreaterThan(0)
    expect(restored).toBeGreaterThan(0)
  },
  SEEDS_MS,
)
