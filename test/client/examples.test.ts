// Each example of the client page is a program: without changes, it runs against a new node and prints the documented
// output.
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { startLedgerNode, temporaryFolder } from '../support/ledger-node.ts'

interface Example {
  readonly code: string
  /** The output that the page shows below the example. */
  readonly output: string
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const CLIENT = join(ROOT, 'src/client/index.ts')
const run = promisify(execFile)

function examplesOf(page: string): Example[] {
  const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8')
  const blocks = text.matchAll(/^```ts\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?/gms)
  return [...blocks].map(([, code = '', output = '']) => ({ code, output }))
}

function programOf(examples: readonly Example[]): string {
  const code = examples.map((example) => example.code).join('\n')
  return code.replaceAll("'daicho/client'", JSON.stringify(CLIENT))
}

describe.each(['docs/reference/client.md'])('%s', (page) => {
  const examples = examplesOf(page)
  it.skipIf(examples.length === 0)('prints the documented output', async () => {
    const node = await startLedgerNode()
    const program = join(temporaryFolder(), 'example.mts')
    writeFileSync(program, programOf(examples).replaceAll('http://127.0.0.1:4126', node.url))
    const { stdout } = await run(process.execPath, [program], {
      env: { NODE_NO_WARNINGS: '1' },
    })
    await node.close()
    expect(stdout).toBe(examples.map(({ output }) => output).join(''))
  })
  it.skipIf(examples.length === 0)('compiles', async () => {
    const folder = temporaryFolder()
    const program = join(folder, 'example.mts')
    writeFileSync(program, programOf(examples))
    const options = { extends: join(ROOT, 'tsconfig.json'), include: [program] }
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
