// Runs a program of this project with the Node version that the project installs, and first installs the dependencies
// if they are missing. Plain JavaScript without dependencies, because this file must work on Node 20 and on Windows.
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { install, nodeIn } from './install.mjs'
import { NODE_FLAGS, NODE_VARIABLES } from './node-flags.mjs'

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
// Builds the dashboard if it is missing or outdated. After a failure, the node starts without the dashboard.
if (rest[0] === 'serve') {
  spawnSync(node, [join(root, 'scripts', 'build-dashboard.ts')], { stdio: ['ignore', 2, 2] })
}
// The name of the variable PATH is looked up, because Windows can spell it `Path`.
const pathName = Object.keys(process.env).find((name) => /^path$/i.test(name)) ?? 'PATH'
const child = spawn(node, [...NODE_FLAGS, join(root, program), ...rest], {
  stdio: 'inherit',
  // Threads and child processes share the compile cache, which halves their start time.
  env: {
    NODE_COMPILE_CACHE: join(root, 'node_modules', '.cache', 'compiled'),
    ...NODE_VARIABLES,
    ...process.env,
    [pathName]: join(root, 'node_modules', '.bin') + delimiter + process.env[pathName],
  },
})
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP']
for (const signal of SIGNALS) {
  // On Windows, signals are not passed on, because `kill` would end the program at once, and it receives Ctrl-C anyway.
  process.on(signal, () => process.platform !== 'win32' && child.kill(signal))
}
// Under `npm run`, stops the program when npm or the shell that npm started has exited, because npm sends signals only
// to this shell, and some shells exit without passing signals on.
if (process.env.npm_lifecycle_event !== undefined) {
  const npm = parentOfShell(parent)
  setInterval(() => {
    if (process.ppid !== parent || !isRunning(parent) || (npm !== null && !isRunning(npm))) {
      child.kill('SIGTERM')
    }
  }, PARENT_CHECK_MS).unref()
}
child.on('exit', (code, signal) => {
  if (signal === null) process.exit(code)
  // Ends like the program. With the handlers above, the signal would not end this process, whose exit code would then
  // mean something else.
  for (const one of SIGNALS) process.removeAllListeners(one)
  process.kill(process.pid, signal)
})

function isRunning(pid) {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error.code === 'EPERM'
  }
}

/** Returns the parent of process `pid` if `pid` is a shell; null if it is not, or if there is no /proc. */
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
