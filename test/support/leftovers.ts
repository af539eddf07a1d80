// Runs with every file of tests in this folder.
import { afterAll, vi } from 'vitest'
import { running } from './daicho.ts'

// Whatever a failed test leaves running goes with its file, and what stood in place of the system's own.
afterAll(() => {
  for (const child of running) child.kill('SIGKILL')
  vi.unstubAllGlobals()
  vi.useRealTimers()
  vi.restoreAllMocks()
})
