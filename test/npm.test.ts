// `npm start` with the real npm. Other tests start the program directly, because that is faster.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import { isInstalled } from '../scripts/install.mjs'
import { temporaryFolder } from './support/ledger-node.ts'

/** False if dependencies are missing. The tests are then skipped, because `npm start` would install them. */
const installed = isInstalled(process.cwd())

const skipped = installed
  ? ''
  : ' (skipped: node_modules differs from package-lock.json; run npm ci)'

/** Starts a ledger with `npm start`. After the test, kills npm and its child processes. */
async function npmStart() {
  const args = ['start', '-s', '--', '--only', 'ledger', '--port', '0', '--json']
  const npm = spawn('npm', args, {
    env: { ...process.env, SYSTEM_FOLDER: temporaryFolder(), LOG_LEVEL: 'info' },
    stdio: ['ignore', 'pipe', 'pipe'],
    // Starts a process group, so that the test can kill all its processes.
    detached: true,
  })
  const { pid } = npm
  if (pid === undefined) throw new Error('npm does not start')
  onTestFinished(() => {
    try {
      process.kill(-pid, 'SIGKILL')
    } catch {
      // Ignored: the processes have exited already.
    }
  })
  const logged = text(npm.stderr)
  const [line] = await once(npm.stdout, 'data')
  const url: string = JSON.parse(`${line}`).ledger
  expect((await fetch(`${url}/api/dbs`)).status).toBe(200)
  return { npm, url, logged }
}

it.skipIf(!installed)(
  `the node of npm start shuts down cleanly when npm receives SIGTERM${skipped}`,
  async () => {
    const { npm, url, logged } = await npmStart()
    npm.kill('SIGTERM')
    expect(await logged).toContain('"signal":"SIGTERM","msg":"closing"')
    await expect(fetch(`${url}/api/dbs`)).rejects.toThrow('fetch failed')
  },
)

it.skipIf(!installed || process.platform !== 'linux')(
  `the node of npm start shuts down cleanly when npm is killed${skipped}`,
  async () => {
    const { npm, url, logged } = await npmStart()
    npm.kill('SIGKILL')
    expect(await logged).toContain('"signal":"SIGTERM","msg":"closing"')
    await expect(fetch(`${url}/api/dbs`)).rejects.toThrow('fetch failed')
  },
)
