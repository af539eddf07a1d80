// Runs all checks of the project, for `npm test` and `.ci/run`. Arguments are passed to the test runner: `npm test --
// src/chain` runs the checks, and then the tests of one folder.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

type Step = readonly [name: string, command: readonly string[]]

const root = fileURLToPath(new URL('..', import.meta.url))
/** File with the results of earlier type checks, for incremental type checks. */
const KNOWN_TYPES = 'node_modules/.cache/types.tsbuildinfo'
/** The compiler's threads check the same types again: together they take almost twice the processor time of one. */
const TYPES = ['tsc', '--singleThreaded', '-p']
/** Checks that only read files, and therefore run in parallel. */
const READING: readonly Step[] = [
  ['lock', ['node', 'scripts/check-lock.ts']],
  ['format, lint, imports', ['biome', 'check', '--colors=off', '.']],
  ['types', [...TYPES, 'tsconfig.json', '--incremental', '--tsBuildInfoFile', KNOWN_TYPES]],
  ['types of the dashboard', [...TYPES, 'src/dashboard/browser/tsconfig.json']],
  ['dead code', ['knip', '--no-progress', '--treat-config-hints-as-errors']],
]
/** Checks that run one after the other, because each needs the result of the previous one. */
const BUILDING: readonly Step[] = [
  ['build', ['node', 'scripts/build.ts']],
  ['package', ['publint', '--strict']],
]

/** Runs a program, and prints its output while it runs or at its end. Resolves to the exit code. */
function run(
  [name, [command = '', ...args]]: Step,
  says: 'at once' | 'at its end',
): Promise<number> {
  if (says === 'at once') console.log(`== ${name}`)
  const stdio = says === 'at once' ? 'inherit' : 'pipe'
  const program = spawn(command, args, { cwd: root, stdio: ['ignore', stdio, stdio] })
  const chunks: Buffer[] = []
  for (const stream of [program.stdout, program.stderr]) {
    stream?.on('data', (bytes: Buffer) => chunks.push(bytes))
  }
  return new Promise((resolve, reject) => {
    program.on('error', reject)
    program.on('close', (code) => {
      if (says === 'at its end') {
        console.log(`== ${name}`)
        process.stdout.write(Buffer.concat(chunks))
      }
      resolve(code ?? 1)
    })
  })
}

/** If a check failed, prints the closing line `N passed, …` and exits. Otherwise the test runner prints this line. */
function stopUnless(code: number, name: string): void {
  if (code === 0) return
  console.log(`\nThe check "${name}" failed.\n0 passed, 1 failed, 0 skipped`)
  process.exit(code)
}

const codes = await Promise.all(READING.map((step) => run(step, 'at its end')))
for (const [at, [name]] of READING.entries()) {
  stopUnless(codes[at] ?? 1, name)
}
for (const step of BUILDING) {
  stopUnless(await run(step, 'at once'), step[0])
}
process.exit(await run(['tests', ['vitest', 'run', ...process.argv.slice(2)]], 'at once'))
