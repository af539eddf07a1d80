import { expect, it } from 'vitest'
import { restMs } from './rest.ts'

it.each([
  // Turn, written, share of the loop, rest.
  [10, false, 0, 10],
  [10, false, 1, 10],
  [10, true, 0, 90],
  [10, true, 0.49, 90],
  [10, true, 0.5, 300],
  [10, true, 1, 300],
  [200, true, 0, 1_000],
  [5_000, false, 0, 1_000],
])(
  'after %s ms (writers: %s, loop %s) the feed rests for %s ms',
  (turn, written, loopShare, rest) => {
    expect(restMs(turn, { written, loopShare })).toBe(rest)
  },
)
