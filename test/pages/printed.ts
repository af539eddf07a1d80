// Runs the commands on pages of the documentation, and compares their output with the page. `npm run -s pages --
// <page>` updates the output on a page.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { describe, expect, it, onTestFinished } from 'vitest'
import { kindsIn, PageShell, stepsIn } from '../../scripts/console-page.ts'
import { temporaryFolder } from '../support/ledger-node.ts'

/** Programs that pages use and that some systems lack, with arguments that succeed if the program exists. */
const TOOLS: Record<string, readonly string[]> = {
  bash: ['-c', 'true'],
  curl: ['--version'],
  jq: ['--version'],
  openssl: ['version'],
  python3: ['-c', 'import cryptography'],
  xxd: ['--version'],
}
const absent = Object.keys(TOOLS).filter((name) => spawnSync(name, TOOLS[name] ?? []).status !== 0)

/**
 * Declares a test for each page: its commands print the documented output.
 *
 * Each element of `pages` is a path from the root, and the minimum number of commands on that page. The pages
 * of one call run one after another, and test files run in parallel.
 */
export function itPrintsWhatPagesSay(
  pages: readonly (readonly [path: string, atLeast: number])[],
): void {
  describe.each(pages)('%s', (path, atLeast) => {
    const page = readFileSync(path, 'utf8')
    const needed = absent.filter((name) => name === 'bash' || page.includes(`${name} `))
    const skipped = needed.length === 0 ? '' : ` (skipped: no ${needed.join(', ')})`
    it.skipIf(needed.length > 0)(`prints the documented output${skipped}`, async () => {
      const steps = stepsIn(page)
      expect(steps.length).toBeGreaterThanOrEqual(atLeast)
      const shell = new PageShell(temporaryFolder())
      onTestFinished(() => shell.close())
      for (const step of steps) {
        const output = await shell.run(step)
        expect(kindsIn(output), step.command).toBe(kindsIn(step.says))
      }
    })
  })
}
