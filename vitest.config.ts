import { tmpdir } from 'node:os'
import { defineConfig } from 'vitest/config'
import { ClosingLineReporter } from './scripts/closing-line-reporter.ts'
import { LongestFirst } from './scripts/longest-first.ts'
import { memoryFolder } from './scripts/memory-folder.ts'

/**
 * Tests that measure their own process (its memory, open files, child processes or event-loop delay), that run the
 * tests of other files again, or that change the network interfaces, after which Chromium ends its requests. They run
 * first, long before the tests with Chromium.
 */
const ALONE = '{src,test}/**/*.alone.test.ts'

/** Tests that replace modules, also some that others have imported. */
const MOCKED = '{src,test}/**/*.mocked.test.ts'
const NATIVE = { experimental: { viteModuleRunner: false, nodeLoader: false } }
const SHARED = { exclude: [ALONE, MOCKED], isolate: false, ...NATIVE }

export default defineConfig({
  test: {
    // Test files share a few processes, which takes two thirds of the time of one process per file. Files
    // named `.alone` or `.mocked` get a process of their own. Node itself imports the modules, as it does for users: those
    // of Vite, which only `.mocked` files need, take a sixth more time to run.
    projects: [
      {
        extends: true,
        test: { name: 'mocked', include: [MOCKED], expect: { requireAssertions: true } },
      },
      {
        extends: true,
        test: {
          ...{ name: 'alone', include: [ALONE], env: { DAICHO_TEST_REAL_THREADS: '1' }, ...NATIVE },
        },
      },
      {
        extends: true,
        test: {
          ...{ name: 'test', include: ['test/**/*.test.ts'], ...SHARED },
          setupFiles: ['test/support/leftovers.ts'],
        },
      },
      {
        extends: true,
        test: {
          ...{ name: 'src', include: ['src/**/*.test.ts'], ...SHARED },
          // Browser tests wait for elements instead of asserting.
          expect: { requireAssertions: true },
        },
      },
    ],
    globalSetup: ['test/support/build.ts', 'test/postgres/setup.ts'],
    setupFiles: ['test/support/built-threads.ts'],
    // Tests kill processes, not machines, so files in memory are as durable as files on a disk. The browser's
    // files stay on the disk for the next run.
    env: { TMPDIR: memoryFolder(), BROWSER_HOME: tmpdir() },
    reporters: ['default', new ClosingLineReporter()],
    // These bounds only end a hanging test. A busy machine may pause for a minute.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    // Two more than the processors of a small machine, because many tests wait for disks, browsers and sockets.
    maxWorkers: 4,
    expect: { poll: { timeout: 250_000 } },
    sequence: { sequencer: LongestFirst },
  },
})
