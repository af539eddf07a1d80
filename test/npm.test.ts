// `npm start` with the real npm: other tests start the program directly, which takes less time.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import { isInstalled } from '../scripts/install.mjs'
import { temporaryFolder } from './support/ledger-node.ts'

/** Otherwise `npm start` would reinstall dependencies during the tests. */
const installed = isInstalled(process.cwd())

it.skipIf(!installed)(
  `stopping npm start shuts the node down cleanly${installed ? '' : ' (skipped: node_modules is not as package-lock.json says)'}`,
  async () => {
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
