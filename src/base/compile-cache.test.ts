import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'

const module = JSON.stringify(new URL('./compile-cache.ts', import.meta.url).href)
const PROGRAM = `
  const { compileCacheEnvironment } = await import(${module})
  console.log(JSON.stringify(compileCacheEnvironment()))`

/** Returns the environment that a program with environment `env` passes to its child processes. */
function childEnvironment(env: Record<string, string>): unknown {
  const flags = ['--disable-warning=ExperimentalWarning', '--input-type=module']
  return JSON.parse(execFileSync(process.execPath, [...flags, '-e', PROGRAM], { env }).toString())
}

it('passes the folder of the compile cache, and no other variable, to child processes', () => {
  const folder = mkdtempSync(join(tmpdir(), 'daicho-compiled-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const environment = { NODE_COMPILE_CACHE: folder }
  expect(childEnvironment({ ...environment, SECRET: 'x' })).toEqual(environment)
  expect(childEnvironment(environment)).toEqual(environment)
  // The cache has one folder, because Node creates one per version, and all programs have the same version.
  expect(readdirSync(folder)).toHaveLength(1)
  expect(childEnvironment({ SECRET: 'x' })).toEqual({})
})
