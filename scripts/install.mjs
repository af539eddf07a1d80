// Installs the dependencies. Plain JavaScript without dependencies, because this file must work on Node 20.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const POLL_MS = 500
const WAIT_MS_MAX = 10 * 60_000

/** Returns the path of Node in `node_modules`. `.bin/node` is not used, because `spawn` cannot run it on Windows. */
export function nodeIn(root) {
  const isWindows = process.platform === 'win32'
  return join(root, 'node_modules', 'node', 'bin', isWindows ? 'node.exe' : 'node')
}

/**
 * Returns whether `node_modules` has Node and every package of `package-lock.json`. npm writes its list of installed
 * packages at the end of an installation, so an interrupted installation has no list.
 */
export function isInstalled(root) {
  const list = join(root, 'node_modules', '.package-lock.json')
  if (!existsSync(list) || !existsSync(nodeIn(root))) return false
  const installed = packagesIn(list)
  return Object.entries(packagesIn(join(root, 'package-lock.json'))).every(
    ([path, { version, optional }]) =>
      path === '' || optional || installed[path]?.version === version,
  )
}

/** Runs `npm ci` if a package is missing. Returns false if `npm ci` fails. */
export function install(root) {
  if (isInstalled(root)) return true
  // Two runs of `npm ci` must not overlap, because `npm ci` first removes node_modules.
  const lock = join(root, '.installing')
  take(lock)
  try {
    if (isInstalled(root)) return true
    console.error('daicho: installing the dependencies (npm ci), only this time …')
    const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error']
    // On Windows, npm can only be run in a shell, because it is a script there.
    const shell = process.platform === 'win32'
    return spawnSync('npm', args, { cwd: root, stdio: ['ignore', 2, 2], shell }).status === 0
  } finally {
    rmSync(lock, { force: true })
  }
}

/** Creates the file `lock`. Waits while another running process has the lock. */
function take(lock) {
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    try {
      writeFileSync(lock, `${process.pid}`, { flag: 'wx' })
      return
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
    }
    if (!isHeld(lock) || waitedMs >= WAIT_MS_MAX) rmSync(lock, { force: true })
    else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, POLL_MS)
  }
}

/** Returns whether a running process has the lock. An empty file counts as locked, because it was just created. */
function isHeld(lock) {
  try {
    const pid = readFileSync(lock, 'utf8')
    return pid === '' || process.kill(Number(pid), 0)
  } catch (error) {
    return error.code === 'EPERM'
  }
}

function packagesIn(path) {
  return JSON.parse(readFileSync(path, 'utf8')).packages
}
