import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { stepsIn } from '../../scripts/console-page.ts'
import { itPrintsWhatPagesSay } from './printed.ts'

itPrintsWhatPagesSay([
  ['README.md', 10],
  ['docs/tour.md', 35],
  ['docs/reference/operation.md', 2],
  ['docs/how-to/backup.md', 8],
  ['docs/how-to/migrate.md', 14],
  ['docs/how-to/second-node.md', 8],
  ['docs/how-to/as-of-a-date.md', 7],
  ['docs/how-to/what-changed.md', 7],
  ['docs/how-to/tokens.md', 7],
  ['docs/how-to/auditor.md', 9],
  ['docs/how-to/erase-personal-data.md', 7],
  ['docs/reference/cli.md', 10],
  ['docs/reference/converter.md', 5],
  ['docs/reference/ledger/tokens.md', 8],
])

it('`stepsIn` finds every command in the console blocks of a page, so that a test runs each command', () => {
  for (const path of ['README.md', 'docs/tour.md', 'docs/reference/ledger/items.md']) {
    const page = readFileSync(path, 'utf8')
    const blocks = [...page.matchAll(/^```console\n([\s\S]*?)^```$/gm)].map(([, text]) => text)
    const written = blocks.join('\n').match(/^\$ /gm)
    expect(stepsIn(page.replace(/^<!-- run\n[\s\S]*?^-->$/gm, '')).length).toBe(written?.length)
  }
})
