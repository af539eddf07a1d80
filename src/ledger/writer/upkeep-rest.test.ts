import { expect, it } from 'vitest'
import { restAfter } from './upkeep-rest.ts'

it('at most a fifth of the time goes to long pieces of upkeep, and no rest is longer than a minute', () => {
  expect([0, 5, 99.9].map(restAfter)).toEqual([0, 0, 0])
  expect([100, 1_500, 15_000].map(restAfter)).toEqual([400, 6_000, 60_000])
  expect(restAfter(600_000)).toBe(60_000)
})
