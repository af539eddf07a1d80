import { defineConfig } from 'vitest/config'
import { ClosingLineReporter } from './scripts/closing-line-reporter.ts'
import { LongestFirst } from './scripts/longest-first.ts'

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    reporters: ['default', new ClosingLineReporter()],
    // Bounds of what hangs, with room for a machine that does other things beside.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // One more than the processors that a small machine has: many tests wait for disks, browsers and wires.
    maxWorkers: 3,
    expect: { poll: { timeout: 25_000 } },
    sequence: { sequencer: LongestFirst },
  },
})
