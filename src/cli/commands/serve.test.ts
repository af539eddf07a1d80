import { expect, it } from 'vitest'
import { signalAction } from './serve.ts'

it.each([
  [null, 'close'],
  [0, 'ignore'],
  [500, 'ignore'],
  [501, 'exit'],
  [60_000, 'exit'],
])('a second signal %s ms after the first signal: %s', (sinceFirstMs, meaning) => {
  expect(signalAction(sinceFirstMs)).toBe(meaning)
})
