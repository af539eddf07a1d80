// Runs a program of this project on the Node version that the project installs, after installing it if
// missing. Must work on Node 20, so it is plain JavaScript without dependencies.
import { spawn, spawnSync } from 'node:child_process'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { install } from './install.mjs'
import { NODE_FLAGS } from './node-flags.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const bin = join(root, 'node_modules', '.bin')

const major = Number(process.versions.node.split('.')[0])
if (major < 20) {
  console.error(`daicho needs Node 20 or newer to install itself; this is ${process.versions.node}`)
  process.exit(78)
}

if (!install(root)) {
  console.error('daicho: npm ci failed; see above')
  process.exit(1)
}

const [program, ...rest] = process.argv.slice(2)
// Builds the dashboard if it is missing or outdated; without it the other components still run.
if (rest[0] === 'serve') {
  spawnSync(join(bin, 'node'), [join(root, 'scripts', 'build-dashboard.ts')], {
    stdio: ['ignore', 2, 2],
  })
}
const child = spawn(
  join(bin, 'node'),
  ['--disable-warning=ExperimentalWarning', ...NODE_FLAGS, join(root, program), ...rest],
  {
    stdio: 'inherit',
    // Threads and child processes share the compile cache, which halves their start time.
    env: {
      NODE_COMPILE_CACHE: join(root, 'node_modules', '.cache', 'compiled'),
      ...process.env,
      PATH: bin + delimiter + process.env.PATH,
    },
  },
)
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.on('exit', (code, signal) => {
  if (signal !== null) process.kill(process.pid, signal)
  process.exit(code ?? 1)
})
