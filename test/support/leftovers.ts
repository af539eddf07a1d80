// Runs with every file of tests in this folder.
import { afterAll } from 'vitest'
import { running } from './daicho.ts'

// Whatever a failed test leaves running goes with its file.
afterAll(() => {
  for (const child of running) child.kill('SIGKILL')
})
