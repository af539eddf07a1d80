import { expect, it } from 'vitest'
import { signalAction } from './serve.ts'

it.each([
  [null, 'close'],
  [0, 'ignore'],
  [500, 'ignore'],
  [501, 'exit'],
  [60_000, 'exit'],
])(
  'for a signal %s ms after the first signal (null for the first signal), the action is %s',
  (sinceFirstMs, meaning) => {
    expect(signalAction(sinceFirstMs)).toBe(meaning)
  },
)
