// Simulated nodes that write, mirror each other and fail. Each seed is a world with its own faults
// (docs/decisions/0026-simulation-and-attacks.md).
import { expect, it } from 'vitest'
import { IS_THOROUGH } from '../support/rounds.ts'
import { runSeed } from './run.ts'
import { runSeeds } from './seeds.ts'

const TITLE =
  'no acknowledged write is lost, a key signs two histories only after a copy or a rollback, and nodes detect this'
/** The first and the last seed. The short form has the fewest seeds with worlds of all kinds. */
const [FIRST, LAST] = IS_THOROUGH ? [1, 150] : [11, 25]
const SEEDS_MS = 600_000

it(
  `seeds ${FIRST} to ${LAST}: ${TITLE}`,
  async () => {
    const { forks, restored } = await runSeeds(FIRST, LAST)
    expect(forks).toBeGreaterThan(0)
    expect(restored).toBeGreaterThan(0)
  },
  SEEDS_MS,
)

it(
  'a mirror that receives the missing blocks while it compares two logs stores evidence that others can verify',
  () => runSeeds(1538, 1538),
  SEEDS_MS,
)

it(
  'a seed always gives exactly the same run',
  async () => {
    for (const seed of [3, 7, 51]) {
      expect([seed, (await runSeed(seed)).traceHash]).toEqual([
        seed,
        (await runSeed(seed)).traceHash,
      ])
    }
  },
  SEEDS_MS,
)

it(
  'the checks detect a disk that reports writes as stored before they are stored',
  async () => {
    let lost = 0
    for (let seed = 1; seed <= 15 && (IS_THOROUGH || lost === 0); seed += 1) {
      const { faults } = await runSeed(seed, 'hasty')
      if (faults.some((fault) => fault.includes('has lost acknowledged writes'))) lost += 1
    }
    expect(lost).toBeGreaterThan(0)
  },
  SEEDS_MS,
)
