import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { delimiter, dirname, join, relative, resolve } from 'node:path'
import { expect, it } from 'vitest'
import { NODE_FLAGS } from '../scripts/node-flags.mjs'
import { temporaryFolder } from './support/ledger-node.ts'

it('the installed command runs with the same flags of V8 as a clone', () => {
  const main = readFileSync(new URL('../src/cli/main.ts', import.meta.url), 'utf8')
  expect(main.split('\n')[0]).toBe(`#!/usr/bin/env -S node ${NODE_FLAGS.join(' ')}`)
})

/** A Node of the machine that is too old for daicho. */
const old = (process.env.PATH ?? '')
  .split(delimiter)
  .map((folder) => join(folder, 'node'))
  .filter((path) => existsSync(path))
  .map((path) => ({ path, version: spawnSync(path, ['--version'], { encoding: 'utf8' }).stdout }))
  .find(({ version }) => /^v(?:[1-9]|1\d|2[013])\./.test(version))

/** Writes `source` and all that it begins with as a build would, from the root of the project into `into`. */
function build(source: string, into: string): void {
  const to = join(into, relative(resolve('.'), source)).replace(/\.ts$/, '.js')
  if (existsSync(to)) return
  mkdirSync(dirname(to), { recursive: true })
  const text = stripTypeScriptTypes(readFileSync(source, 'utf8'))
  writeFileSync(to, text.replace(/(?<= from '\.[^']*)\.ts(?=')/g, '.js'))
  for (const [, path = ''] of text.matchAll(/ from '(\.[^']*)'/g)) {
    build(resolve(dirname(source), path), into)
  }
}

it.skipIf(old === undefined)(
  `a Node that is too old is told which one is needed, and ends with 78${old === undefined ? ' (skipped: there is none in PATH)' : ''}`,
  () => {
    const folder = temporaryFolder()
    symlinkSync(resolve('node_modules'), join(folder, 'node_modules'))
    symlinkSync(resolve('package.json'), join(folder, 'package.json'))
    build(resolve('src/cli/main.ts'), folder)
    const program = join(folder, 'src/cli/main.js')
    const { status, stdout, stderr } = spawnSync(old?.path ?? '', [program, '--version'], {
      encoding: 'utf8',
    })
    const needed = 'daicho needs Node 24 or newer, or 22.18 or newer of 22'
    expect({ status, stdout, stderr }).toEqual({
      status: 78,
      stdout: '',
      stderr: `${needed}; this is ${old?.version.trim().slice(1)}\n`,
    })
  },
)
