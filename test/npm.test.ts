// `npm start` with the real npm: other tests start the program directly, which takes less time.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import { isInstalled } from '../scripts/install.mjs'
import { temporaryFolder } from './support/ledger-node.ts'

/** Skipped if dependencies are missing, because `npm start` would reinstall them during the tests. */
const installed = isInstalled(process.cwd())

const skipped = installed ? '' : ' (skipped: node_modules is not as package-lock.json says)'

/** Starts a ledger with `npm start`; everything that it started is killed after the test. */
async function npmStart() {
  const args = ['start', '-s', '--', '--only', 'ledger', '--port', '0', '--json']
  const npm = spawn('npm', args, {
    env: { ...process.env, SYSTEM_FOLDER: temporaryFolder(), LOG_LEVEL: 'info' },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A process group, so that all its processes can be killed.
    detached: true,
  })
  const { pid } = npm
  if (pid === undefined) throw new Error('npm does not start')
  onTestFinished(() => {
    try {
      process.kill(-pid, 'SIGKILL')
    } catch {
      // All processes have exited.
    }
  })
  const logged = text(npm.stderr)
  const [line] = await once(npm.stdout, 'data')
  const url: string = JSON.parse(`${line}`).ledger
  expect((await fetch(`${url}/api/dbs`)).status).toBe(200)
  return { npm, url, logged }
}

it.skipIf(!installed)(`stopping npm start shuts the node down cleanly${skipped}`, async () => {
  const { npm, url, logged } = await npmStart()
  npm.kill('SIGTERM')
  expect(await logged).toContain('"signal":"SIGTERM","msg":"closing"')
  await expect(fetch(`${url}/api/dbs`)).rejects.toThrow('fetch failed')
})

it.skipIf(!installed || process.platform !== 'linux')(
  `killing npm start shuts the node down cleanly${skipped}`,
  async () => {
    const { npm, url, logged } = await npmStart()
    npm.kill('SIGKILL')
    expect(await logged).toContain('"signal":"SIGTERM","msg":"closing"')
    await expect(fetch(`${url}/api/dbs`)).rejects.toThrow('fetch failed')
  },
)
