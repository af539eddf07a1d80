// Installs the dependencies. Must work on Node 20, so it is plain JavaScript without dependencies.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const POLL_MS = 500
const WAIT_MS_MAX = 10 * 60_000

/** The Node that is installed in `root`. npm's `.bin/node` is a script on Windows, which `spawn` does not run. */
export function nodeIn(root) {
  const isWindows = process.platform === 'win32'
  return join(root, 'node_modules', 'node', 'bin', isWindows ? 'node.exe' : 'node')
}

/**
 * Returns whether `node_modules` has every package of `package-lock.json`, and Node itself. npm writes its
 * own list at the end of an installation, so an interrupted installation has no list.
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

/** Runs `npm ci` if anything is missing; returns false if it fails. */
export function install(root) {
  if (isInstalled(root)) return true
  // `npm ci` removes node_modules first, so two runs must not overlap.
  const lock = join(root, '.installing')
  take(lock)
  try {
    if (isInstalled(root)) return true
    console.error('daicho: installing what is missing (npm ci), once …')
    const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error']
    // npm is a script on Windows, which only a shell runs.
    const shell = process.platform === 'win32'
    return spawnSync('npm', args, { cwd: root, stdio: ['ignore', 2, 2], shell }).status === 0
  } finally {
    rmSync(lock, { force: true })
  }
}

/** Creates the file `lock`; waits while another living process has it. */
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

/** Returns whether a living process has the lock. An empty file was just created; a removed lock is free. */
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
