import { defineConfig } from 'vitest/config'
import { ClosingLineReporter } from './scripts/closing-line-reporter.ts'

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    reporters: ['default', new ClosingLineReporter()],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    maxWorkers: 2,
  },
})
