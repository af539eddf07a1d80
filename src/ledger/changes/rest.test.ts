import { expect, it } from 'vitest'
import { restMs } from './rest.ts'

it.each([
  // Turn, written, share of the loop, slices, rest.
  [10, false, 0, 100, 10],
  [10, false, 1, 100, 10],
  [10, true, 0, 100, 90],
  [10, true, 0.49, 100, 90],
  [10, true, 0.5, 100, 690],
  [10, true, 0, 1, 90],
  [10, true, 0, 0, 290],
  [10, true, 1, 0, 290],
  [0.5, true, 1, 1, 10.5],
  [10, true, 1, 152, 1_000],
  [200, true, 0, 0, 1_000],
  [5_000, false, 0, 0, 1_000],
])(
  'after %s ms (writers: %s, loop %s, slices %s) the feed rests for %s ms',
  (turn, written, loopShare, handed, rest) => {
    expect(restMs(turn, { written, loopShare, handed })).toBe(rest)
  },
)
