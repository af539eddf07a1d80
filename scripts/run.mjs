// Runs a program of this project on the Node version that the project installs, after installing it if
// missing. Only this file must work on Node 20, so it is plain JavaScript without dependencies.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NODE_FLAGS } from './node-flags.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const bin = join(root, 'node_modules', '.bin')
const lock = join(root, 'package-lock.json')
// Copy of the installed lock file: if a pull changes the lock, dependencies are installed again.
const installed = join(root, 'node_modules', '.installed-lock.json')

const major = Number(process.versions.node.split('.')[0])
if (major < 20) {
  console.error(`daicho needs Node 20 or newer to install itself; this is ${process.versions.node}`)
  process.exit(78)
}

const same = () =>
  existsSync(installed) && readFileSync(installed, 'utf8') === readFileSync(lock, 'utf8')
if (!same()) {
  console.error('daicho: installing what is missing (npm ci), once …')
  const npm = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
  })
  if (npm.status !== 0) {
    console.error('daicho: npm ci failed; see above')
    process.exit(1)
  }
  writeFileSync(installed, readFileSync(lock))
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
