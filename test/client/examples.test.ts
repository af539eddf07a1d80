// The examples of a page of the client are a program: without changes, it runs against a new node and prints
// the documented output. The programs of the README use the package as npm installs it.
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { installClient } from '../support/installed-client.ts'
import { startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'

interface Example {
  readonly code: string
  /** The output that the page shows below the example. */
  readonly output: string
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const run = promisify(execFile)

function examplesOf(page: string): Example[] {
  const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8')
  const blocks = text.matchAll(/^```ts\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?/gms)
  return [...blocks].map(([, code = '', output = '']) => ({ code, output }))
}

/** The pages, each with the folder in which its programs run, and what they import as the client. */
const PAGES: readonly (readonly [string, () => Promise<string>, string, string])[] = [
  [
    'docs/reference/client.md',
    async () => temporaryFolder(),
    "'daicho/client'",
    JSON.stringify(join(ROOT, 'src/client/index.ts')),
  ],
  ['clients/typescript/README.md', installClient, "'@daicho/client'", "'@daicho/client'"],
]

describe.each(PAGES)('%s', (page, prepareFolder, name, imported) => {
  const examples = examplesOf(page)
  const code = examples.map((example) => example.code).join('\n')
  const program = code.replaceAll(name, imported)
  it.skipIf(examples.length === 0)('prints the documented output', async () => {
    const node = await startLedgerNode()
    const folder = await prepareFolder()
    const path = join(folder, 'example.mts')
    writeFileSync(path, program.replaceAll('http://127.0.0.1:4126', node.url))
    const { stdout } = await run(process.execPath, [path], {
      cwd: folder,
      env: { NODE_NO_WARNINGS: '1' },
    })
    await node.close()
    expect(stdout).toBe(examples.map(({ output }) => output).join(''))
  })
  it.skipIf(examples.length === 0)('compiles', async () => {
    const folder = await prepareFolder()
    const path = join(folder, 'example.mts')
    writeFileSync(path, program)
    const options = { extends: join(ROOT, 'tsconfig.json'), include: [path] }
    const types = { typeRoots: [join(ROOT, 'node_modules/@types')] }
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ ...options, compilerOptions: types }),
    )
    // If the compiler fails, the error contains its output in `stdout`.
    const { stdout } = await run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', folder]).catch(
      (error) => error,
    )
    expect(stdout).toBe('')
  })
})
