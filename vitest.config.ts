import { tmpdir } from 'node:os'
import { defineConfig } from 'vitest/config'
import { ClosingLineReporter } from './scripts/closing-line-reporter.ts'
import { LongestFirst } from './scripts/longest-first.ts'
import { memoryFolder } from './scripts/memory-folder.ts'

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    // Most tests ask for no disk: those kill programs, and what those have written stays. The browser stays
    // where the next run finds it.
    env: { TMPDIR: memoryFolder(), BROWSER_HOME: tmpdir() },
    reporters: ['default', new ClosingLineReporter()],
    // Bounds of what hangs, with room for a machine that does other things beside.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // One more than the processors that a small machine has: many tests wait for disks, browsers and wires.
    maxWorkers: 3,
    expect: { poll: { timeout: 100_000 } },
    sequence: { sequencer: LongestFirst },
  },
})
