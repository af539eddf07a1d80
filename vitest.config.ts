import { tmpdir } from 'node:os'
import { defineConfig } from 'vitest/config'
import { ClosingLineReporter } from './scripts/closing-line-reporter.ts'
import { LongestFirst } from './scripts/longest-first.ts'
import { memoryFolder } from './scripts/memory-folder.ts'

/** Tests that look at what their process has: its memory, open files, children, or turns of its event loop. */
const ALONE = '{src,test}/**/*.alone.test.ts'

export default defineConfig({
  test: {
    // Files follow each other in a few processes and leave nothing behind there, which takes two thirds of what
    // a process for each takes; those that say so in their name have one each.
    projects: [
      { extends: true, test: { name: 'alone', include: [ALONE] } },
      {
        extends: true,
        test: {
          ...{ name: 'test', include: ['test/**/*.test.ts'], exclude: [ALONE], isolate: false },
          setupFiles: ['test/support/leftovers.ts'],
        },
      },
      {
        extends: true,
        test: {
          ...{ name: 'src', include: ['src/**/*.test.ts'], exclude: [ALONE], isolate: false },
          // Those in browsers wait for what they promise, and need not say so again.
          expect: { requireAssertions: true },
        },
      },
    ],
    globalSetup: ['test/support/build.ts', 'test/postgres/setup.ts'],
    setupFiles: ['test/support/built-threads.ts'],
    // Most tests ask for no disk: those kill programs, and what those have written stays. The browser stays
    // where the next run finds it.
    env: { TMPDIR: memoryFolder(), BROWSER_HOME: tmpdir() },
    reporters: ['default', new ClosingLineReporter()],
    // Bounds of what hangs, with room for a machine that does other things beside, or stands still for a minute.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    // One more than the processors that a small machine has: many tests wait for disks, browsers and wires.
    maxWorkers: 3,
    expect: { poll: { timeout: 250_000 } },
    sequence: { sequencer: LongestFirst },
  },
})
