// The whole check of the project, cheapest first; `npm test` and `.ci/run` run this. Arguments are
// handed to the test runner: `npm test -- src/chain` runs the tests of one folder after the checks.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const steps: readonly (readonly [string, readonly string[]])[] = [
  ['lock', ['node', 'scripts/check-lock.ts']],
  ['format, lint, imports', ['biome', 'check', '--colors=off', '.']],
  ['types', ['tsc', '-p', 'tsconfig.json']],
  ['types of the dashboard', ['tsc', '-p', 'src/dashboard/browser/tsconfig.json']],
  ['dead code', ['knip', '--no-progress', '--treat-config-hints-as-errors']],
  ['build', ['node', 'scripts/build.ts']],
  ['package', ['publint', '--strict']],
  ['tests', ['vitest', 'run', ...process.argv.slice(2)]],
]
for (const [name, [command = '', ...args]] of steps) {
  console.log(`== ${name}`)
  const step = spawnSync(command, args, { cwd: root, stdio: 'inherit' })
  if (step.status !== 0) {
    // The runner has printed its own closing line; the steps before it have none.
    if (name !== 'tests')
      console.log(`\nThe check "${name}" failed.\n0 passed, 1 failed, 0 skipped`)
    process.exit(step.status ?? 1)
  }
}
