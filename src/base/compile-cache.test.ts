import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'

const module = JSON.stringify(new URL('./compile-cache.ts', import.meta.url).href)
const PROGRAM = `
  const { compileCacheEnvironment } = await import(${module})
  console.log(JSON.stringify(compileCacheEnvironment()))`

/** What a program with this environment hands on. */
function handedOn(env: Record<string, string>): unknown {
  const flags = ['--disable-warning=ExperimentalWarning', '--input-type=module']
  return JSON.parse(execFileSync(process.execPath, [...flags, '-e', PROGRAM], { env }).toString())
}

it('whoever is started finds what was compiled where this program has it, and learns nothing else', () => {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-compiled-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const handed = { NODE_COMPILE_CACHE: folder }
  expect(handedOn({ ...handed, SECRET: 'x' })).toEqual(handed)
  expect(handedOn(handed)).toEqual(handed)
  // One folder, of one version.
  expect(readdirSync(folder)).toHaveLength(1)
  expect(handedOn({ SECRET: 'x' })).toEqual({})
})
