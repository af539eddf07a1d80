// Copies what is served as it is, and so is not compiled, beside the compiled files: each wing's
// folder `page/`. Part of the build.
import { cpSync, existsSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
for (const wing of readdirSync(`${root}src`)) {
  const page = `${root}src/${wing}/page`
  if (existsSync(page)) cpSync(page, `${root}dist/${wing}/page`, { recursive: true })
}
