import type { Reporter, TestModule } from 'vitest/node'

/** Prints the names of skipped tests, and as the last line `N passed, N failed, N skipped`. */
export class ClosingLineReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const count = { passed: 0, failed: errors.length, skipped: 0 }
    for (const module of modules) {
      if (module.state() === 'failed' && module.errors().length > 0) count.failed += 1
      for (const test of module.children.allTests()) {
        const { state } = test.result()
        if (state === 'pending') continue
        count[state] += 1
        if (state === 'skipped')
          console.log(`SKIPPED  ${module.relativeModuleId}  ${test.fullName}`)
      }
    }
    console.log(`${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`)
  }
}
