// The page that goes through the life of a network, command by command.
import { cpSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { PageShell, stepsIn } from '../support/console-page.ts'
import { temporaryFolder } from '../support/ledger-node.ts'

const MINUTES_MS = 180_000

it(
  'docs/reference/network-life.md: checked, deployed, used, upgraded, verified and restored on another node',
  async () => {
    const folder = temporaryFolder()
    cpSync('examples', join(folder, 'examples'), { recursive: true })
    const steps = stepsIn(readFileSync('docs/reference/network-life.md', 'utf8'))
    expect(steps.length).toBeGreaterThan(30)
    const shell = new PageShell(folder)
    onTestFinished(() => shell.close())
    for (const step of steps) await shell.step(step)
  },
  MINUTES_MS,
)
