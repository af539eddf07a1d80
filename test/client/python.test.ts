// The Python client: its types, and against real nodes, its own test suite and the examples of its page.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { devNull } from 'node:os'
import { expect, it, onTestFinished } from 'vitest'
import { issueApiToken, openTokens } from '../../src/tokens/index.ts'
import { HandClock, startLedgerNode } from '../support/ledger-node.ts'
import { hasPython, pythonNote, runPython } from '../support/python.ts'

it.skipIf(!hasPython)(`the tests of the Python client pass${pythonNote}`, async () => {
  const clock = new HandClock()
  const tokens = await openTokens({ clock, folder: null, secret: null })
  const [open, gated] = [await startLedgerNode(), await startLedgerNode({ clock, tokens })]
  onTestFinished(async () => {
    await Promise.all([open.close(), gated.close()])
  })
  const grant = { subject: 't', scopes: ['db:*:admin'], lifeSeconds: 60 }
  const { stderr } = await runPython(
    ['-W', 'error', '-m', 'unittest', 'discover', '--start-directory', 'tests'],
    {
      DAICHO_URL: open.url,
      DAICHO_URL_WITH_TOKENS: gated.url,
      DAICHO_TOKEN: (await issueApiToken(tokens, grant)).token,
    },
  )
  expect(stderr).toMatch(/^Ran \d\d tests in [\d.]+s\n\nOK$/m)
})

it.skipIf(!hasPython)(
  `the examples of the Python client page print the documented output${pythonNote}`,
  async () => {
    const page = new URL('../../clients/python/README.md', import.meta.url)
    const blocks = readFileSync(page, 'utf8').matchAll(
      /^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?/gms,
    )
    const examples = [...blocks].map(([, code = '', output = '']) => ({ code, output }))
    const node = await startLedgerNode()
    onTestFinished(() => node.close())
    const program = examples.map(({ code }) => code).join('\n')
    const { stdout } = await runPython(
      ['-c', program.replaceAll('http://127.0.0.1:4126', node.url)],
      {},
    )
    expect(stdout).toBe(examples.map(({ output }) => output).join(''))
  },
)

const mypy = ['-m', 'mypy', '--strict', '--cache-dir', devNull]
const hasMypy = hasPython && spawnSync('python3', [...mypy, '--version']).status === 0
const mypyNote = hasMypy ? '' : ' (skipped: no python3 with the packages mypy and cryptography)'

it.skipIf(!hasMypy)(
  `the types of the Python client and its tests are complete${mypyNote}`,
  async () => {
    const { stdout } = await runPython(mypy, {})
    expect(stdout).toMatch(/^Success: no issues found in \d+ source files$/m)
  },
)
