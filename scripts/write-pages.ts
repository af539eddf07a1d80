// Runs the commands of documentation pages against new nodes, and writes their output into the pages:
// `npm run -s pages -- README.md docs/tour.md`. With `--check`, writes nothing, and exits with code 1 if a page is
// outdated.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildPackage } from './build.ts'
import { kindsIn, PageShell, stepsIn } from './console-page.ts'

const words = process.argv.slice(2)
const isCheck = words.includes('--check')

await buildPackage()
for (const path of words.filter((word) => word !== '--check')) {
  const page = readFileSync(path, 'utf8')
  const folder = mkdtempSync(join(tmpdir(), 'daicho-page-'))
  const shell = new PageShell(folder)
  try {
    let written = ''
    let at = 0
    for (const step of stepsIn(page)) {
      const output = await shell.run(step)
      if (kindsIn(output) !== kindsIn(step.says)) {
        console.log(`${path}: $ ${step.command}\n--- the page\n${step.says}--- now\n${output}`)
        if (isCheck) process.exitCode = 1
      }
      written += page.slice(at, step.from) + output
      at = step.to
    }
    // Values of the last run are replaced in the whole page, because commands and other text can contain them.
    if (!isCheck) writeFileSync(path, shell.translated(written + page.slice(at)))
  } finally {
    await shell.close()
    rmSync(folder, { recursive: true })
  }
}
