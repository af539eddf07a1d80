// Runs a program of this project on the Node version that the project installs, after installing it if
// missing. Must work on Node 20 and on Windows, so it is plain JavaScript without dependencies.
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { install, nodeIn } from './install.mjs'
import { NODE_FLAGS } from './node-flags.mjs'

const PARENT_CHECK_MS = 100

const root = fileURLToPath(new URL('..', import.meta.url))
const parent = process.ppid

const major = Number(process.versions.node.split('.')[0])
if (major < 20) {
  console.error(`daicho needs Node 20 or newer to install itself; this is ${process.versions.node}`)
  process.exit(78)
}

if (!install(root)) {
  console.error('daicho: npm ci failed; see above')
  process.exit(1)
}

const node = nodeIn(root)
const [program, ...rest] = process.argv.slice(2)
// Builds the dashboard if it is missing or outdated; without it the other components still run.
if (rest[0] === 'serve') {
  spawnSync(node, [join(root, 'scripts', 'build-dashboard.ts')], { stdio: ['ignore', 2, 2] })
}
// Windows may spell the name `Path`.
const pathName = Object.keys(process.env).find((name) => /^path$/i.test(name)) ?? 'PATH'
const child = spawn(node, [...NODE_FLAGS, join(root, program), ...rest], {
  stdio: 'inherit',
  // Threads and child processes share the compile cache, which halves their start time.
  env: {
    NODE_COMPILE_CACHE: join(root, 'node_modules', '.cache', 'compiled'),
    ...process.env,
    [pathName]: join(root, 'node_modules', '.bin') + delimiter + process.env[pathName],
  },
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  // On Windows, `kill` would end the program at once, and Ctrl-C has reached it already.
  process.on(signal, () => process.platform !== 'win32' && child.kill(signal))
}
// npm sends signals to its shell only, and some shells exit without passing signals on. So the program stops when
// the shell or npm has exited.
if (process.env.npm_lifecycle_event !== undefined) {
  const npm = parentOfShell(parent)
  setInterval(() => {
    if (process.ppid !== parent || !isRunning(parent) || (npm !== null && !isRunning(npm))) {
      child.kill('SIGTERM')
    }
  }, PARENT_CHECK_MS).unref()
}
child.on('exit', (code, signal) => {
  if (signal !== null) process.kill(process.pid, signal)
  process.exit(code ?? 1)
})

function isRunning(pid) {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error.code === 'EPERM'
  }
}

/** Returns the parent of a process that is a shell; null for other processes, and where there is no /proc. */
function parentOfShell(pid) {
  try {
    const [, parentPid] = /^\d+ \((?:sh|dash|ash|busybox)\) \S (\d+)/.exec(
      readFileSync(`/proc/${pid}/stat`, 'utf8'),
    )
    return Number(parentPid)
  } catch {
    return null
  }
}
