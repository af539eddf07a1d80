// Runs with every test file in `test/`, except the files named `.alone`.
import { afterAll, vi } from 'vitest'
import { running } from './daicho.ts'

// Kills programs that a failed test left running, and restores replaced globals.
afterAll(() => {
  for (const child of running) child.kill('SIGKILL')
  vi.unstubAllGlobals()
  vi.useRealTimers()
  vi.restoreAllMocks()
})
