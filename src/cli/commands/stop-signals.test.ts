import { expect, it } from 'vitest'
import { stopSignalMeans } from './stop-signals.ts'

it.each([
  [null, 'close'],
  [0, 'nothing'],
  [500, 'nothing'],
  [501, 'end at once'],
  [60_000, 'end at once'],
])('a signal to stop, %s ms after the first one: %s', (sinceFirstMs, meaning) => {
  expect(stopSignalMeans(sinceFirstMs)).toBe(meaning)
})
