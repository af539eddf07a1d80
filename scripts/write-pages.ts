// Runs the commands of documentation pages against new nodes, and writes their output into the pages:
// `npm run -s pages -- README.md docs/tour.md`. With `--check`, writes nothing, and exits with code 1 if a page is
// outdated. The page of error codes is written from the source.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildPackage } from './build.ts'
import { kindsIn, PageShell, stepsIn } from './console-page.ts'
import { ERRORS_PAGE, errorsPage } from './errors-page.ts'

const words = process.argv.slice(2)
const isCheck = words.includes('--check')

const paths = words.filter((word) => word !== '--check')
if (paths.includes(ERRORS_PAGE)) {
  const isCurrent = existsSync(ERRORS_PAGE) && readFileSync(ERRORS_PAGE, 'utf8') === errorsPage()
  if (!isCheck) writeFileSync(ERRORS_PAGE, errorsPage())
  else if (!isCurrent) process.exitCode = 1
}
const written = paths.filter((path) => path !== ERRORS_PAGE)
if (written.length > 0) await buildPackage()
for (const path of written) {
  const page = readFileSync(path, 'utf8')
  const folder = mkdtempSync(join(tmpdir(), 'daicho-page-'))
  const shell = new PageShell(folder)
  try {
    let result = ''
    let at = 0
    for (const step of stepsIn(page)) {
      const output = await shell.run(step)
      if (kindsIn(output) !== kindsIn(step.says)) {
        console.log(`${path}: $ ${step.command}\n--- the page\n${step.says}--- now\n${output}`)
        if (isCheck) process.exitCode = 1
      }
      result += page.slice(at, step.from) + output
      at = step.to
    }
    // Values of the last run are replaced in the whole page, because commands and other text can contain them.
    if (!isCheck) writeFileSync(path, shell.translated(result + page.slice(at)))
  } finally {
    await shell.close()
    rmSync(folder, { recursive: true })
  }
}
