// The commands of the documentation, run as they stand there: they print what stands under them.
// `npm run -s pages -- <page>` writes anew what they print.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { describe, expect, it, onTestFinished } from 'vitest'
import { kindsIn, PageShell, stepsIn } from '../scripts/console-page.ts'
import { temporaryFolder } from './support/ledger-node.ts'

const MINUTES_MS = 180_000
/** Programs that pages use, beside those of every system, with what shows that they are there. */
const TOOLS: Record<string, readonly string[]> = {
  bash: ['-c', 'true'],
  curl: ['--version'],
  jq: ['--version'],
  openssl: ['version'],
  python3: ['-c', 'import cryptography'],
  xxd: ['--version'],
}
const absent = Object.keys(TOOLS).filter((name) => spawnSync(name, TOOLS[name] ?? []).status !== 0)

describe.each([
  ['README.md', 10],
  ['docs/tour.md', 35],
  ['docs/operations.md', 8],
  ['docs/reference/attachments.md', 10],
  ['docs/reference/chain-format.md', 8],
  ['docs/reference/changes.md', 2],
  ['docs/reference/cli.md', 10],
  ['docs/reference/converter.md', 5],
  ['docs/reference/export.md', 8],
  ['docs/reference/gateway.md', 5],
  ['docs/reference/history.md', 10],
  ['docs/reference/ledger.md', 40],
  ['docs/reference/network-life.md', 30],
  ['docs/reference/networks.md', 5],
  ['docs/reference/peers.md', 10],
  ['docs/reference/proofs.md', 15],
  ['docs/reference/queries.md', 10],
  ['docs/reference/rates.md', 2],
  ['docs/reference/samples.md', 6],
  ['docs/reference/tokens.md', 8],
  ['docs/reference/transactions.md', 5],
])('%s', (path, atLeast) => {
  const page = readFileSync(path, 'utf8')
  const needed = absent.filter((name) => name === 'bash' || page.includes(`${name} `))
  const skipped = needed.length === 0 ? '' : ` (skipped: no ${needed.join(', ')})`
  it.skipIf(needed.length > 0)(
    `prints what it says${skipped}`,
    async () => {
      const steps = stepsIn(page)
      expect(steps.length).toBeGreaterThanOrEqual(atLeast)
      const shell = new PageShell(temporaryFolder())
      onTestFinished(() => shell.close())
      for (const step of steps) {
        const said = await shell.run(step)
        expect(kindsIn(said), step.command).toBe(kindsIn(step.says))
      }
    },
    MINUTES_MS,
  )
})

it('no block of console text has a command that is not run', () => {
  for (const path of ['README.md', 'docs/tour.md', 'docs/reference/ledger.md']) {
    const page = readFileSync(path, 'utf8')
    const blocks = [...page.matchAll(/^```console\n([\s\S]*?)^```$/gm)].map(([, text]) => text)
    const written = blocks.join('\n').match(/^\$ /gm)
    expect(stepsIn(page.replace(/^<!-- run\n[\s\S]*?^-->$/gm, '')).length).toBe(written?.length)
  }
})
