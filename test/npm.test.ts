// `npm start` with the real npm: other tests start the program directly, which takes less time.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import { temporaryFolder } from './support/ledger-node.ts'

const INSTALLED = 'node_modules/.installed-lock.json'
/** Otherwise `npm start` would reinstall dependencies during the tests. */
const isInstalled =
  existsSync(INSTALLED) &&
  readFileSync(INSTALLED, 'utf8') === readFileSync('package-lock.json', 'utf8')

it.skipIf(!isInstalled)(
  `ending npm start ends the node, which shuts down cleanly${isInstalled ? '' : ' (skipped: npm run has not installed this lock)'}`,
  async () => {
    const args = ['start', '-s', '--', '--only', 'ledger', '--port', '0', '--json']
    const npm = spawn('npm', args, {
      env: { ...process.env, SYSTEM_FOLDER: temporaryFolder(), LOG_LEVEL: 'info' },
      stdio: ['ignore', 'pipe', 'pipe'],
      // A process group, so that all its processes can be ended.
      detached: true,
    })
    const { pid } = npm
    if (pid === undefined) throw new Error('npm does not start')
    onTestFinished(() => {
      try {
        process.kill(-pid, 'SIGKILL')
      } catch {
        // All processes have ended.
      }
    })
    const logged = text(npm.stderr)
    const ended = once(npm, 'exit')
    const [line] = await once(npm.stdout, 'data')
    const { ledger } = JSON.parse(`${line}`)
    expect((await fetch(`${ledger}/api/dbs`)).status).toBe(200)
    npm.kill('SIGTERM')
    expect(await ended).toEqual([0, null])
    expect(await logged).toContain('"signal":"SIGTERM","msg":"closing"')
    await expect(fetch(`${ledger}/api/dbs`)).rejects.toThrow('fetch failed')
  },
)
