import { expect, it } from 'vitest'
import { WholeLook } from './whole-look.ts'

const MINUTE = 60_000

it('all contents are looked for a minute after the first look, and every minute from then on', () => {
  const look = new WholeLook()
  expect([0, 1, MINUTE - 1, MINUTE].map((nowMs) => look.begins(nowMs))).toEqual([
    ...[false, false, false, true],
  ])
  // A look that breaks off is gone on with, not begun anew.
  expect([MINUTE, 2 * MINUTE - 1, 2 * MINUTE].map((nowMs) => look.begins(nowMs))).toEqual([
    ...[false, false, true],
  ])
})

it.each([
  ['short', 5_000, MINUTE],
  ['of a minute', MINUTE, 10 * MINUTE + MINUTE],
  ['of a day', 1_440 * MINUTE, (1_440 + 60) * MINUTE],
])(
  'a look that was %s is followed by a rest ten times as long, of an hour at most',
  (_, tookMs, nextMs) => {
    const look = new WholeLook()
    look.begins(-MINUTE)
    expect(look.begins(0)).toBe(true)
    look.ended(tookMs, tookMs)
    expect([look.begins(nextMs - 1), look.begins(nextMs)]).toEqual([false, true])
  },
)
